"""The system calls a sandboxed Python needs, by number, and those a compiler must not use.

Numbers: Linux ``arch/x86/entry/syscalls/syscall_64.tbl`` and ``asm-generic/unistd.h`` (aarch64).
"""

from __future__ import annotations

import platform


def _table(text: str) -> dict[str, int]:
    return {name: int(number) for name, number in (pair.split("=") for pair in text.split())}


# What Python, NumPy, torch and Triton's interpreter use once they are imported. Nothing here
# makes a process, a thread, a socket, a file or a signal to somebody else.
_ALLOWED = {
    "x86_64": """
read=0 write=1 close=3 fstat=5 newfstatat=262 stat=4 lstat=6 statx=332 lseek=8 mmap=9 mprotect=10
munmap=11 mremap=25 brk=12 madvise=28 rt_sigaction=13 rt_sigprocmask=14 rt_sigreturn=15
rt_sigpending=127 sigaltstack=131 pread64=17 readv=19 writev=20 access=21 faccessat=269
faccessat2=439 open=2 openat=257 readlink=89 readlinkat=267 getdents64=217 getcwd=79 dup=32 dup2=33
dup3=292 poll=7 ppoll=271 select=23 pselect6=270 sched_yield=24 nanosleep=35
clock_nanosleep=230 clock_gettime=228 clock_getres=229 gettimeofday=96 time=201 times=100
getrusage=98 getpid=39 gettid=186 getppid=110 getuid=102 geteuid=107 getgid=104 getegid=108
getrandom=318 futex=202 set_robust_list=273 get_robust_list=274 rseq=334 membarrier=324 exit=60
exit_group=231 sched_getaffinity=204 getcpu=309 sysinfo=99 uname=63 restart_syscall=219
getrlimit=97 setitimer=38 getitimer=36 alarm=37""",
    "aarch64": """
read=63 write=64 close=57 fstat=80 newfstatat=79 statx=291 lseek=62 mmap=222 mprotect=226 munmap=215
mremap=216 brk=214 madvise=233 rt_sigaction=134 rt_sigprocmask=135 rt_sigreturn=139
rt_sigpending=136 sigaltstack=132 pread64=67 readv=65 writev=66 faccessat=48 faccessat2=439
openat=56 readlinkat=78 getdents64=61 getcwd=17 dup=23 dup3=24 ppoll=73 pselect6=72
sched_yield=124 nanosleep=101 clock_nanosleep=115 clock_gettime=113 clock_getres=114
gettimeofday=169 times=153 getrusage=165 getpid=172 gettid=178 getppid=173 getuid=174 geteuid=175
getgid=176 getegid=177 getrandom=278 futex=98 set_robust_list=99 get_robust_list=100 rseq=293
membarrier=283 exit=93 exit_group=94 sched_getaffinity=123 getcpu=168 sysinfo=179 uname=160
restart_syscall=128 getrlimit=163 setitimer=103 getitimer=102""",
}

# The compiler starts a program (ptxas), so it cannot live with the list above.
_DENIED = {
    "x86_64": """
socket=41 socketpair=53 connect=42 bind=49 ptrace=101 process_vm_readv=310 process_vm_writev=311
unshare=272 mount=165 umount2=166 pivot_root=155 chroot=161 setns=308 bpf=321 perf_event_open=298
keyctl=250 add_key=248 request_key=249 userfaultfd=323 io_uring_setup=425 pidfd_getfd=438
pidfd_open=434 pidfd_send_signal=424 kexec_load=246 init_module=175 finit_module=313
delete_module=176 tkill=200 rt_sigqueueinfo=129 rt_tgsigqueueinfo=297 open_by_handle_at=304
fsopen=430 move_mount=429 open_tree=428 personality=135 mknod=133 mknodat=259""",
    "aarch64": """
socket=198 socketpair=199 connect=203 bind=200 ptrace=117 process_vm_readv=270 process_vm_writev=271
unshare=97 mount=40 umount2=39 pivot_root=41 chroot=51 setns=268 bpf=280 perf_event_open=241
keyctl=219 add_key=217 request_key=218 userfaultfd=282 io_uring_setup=425 pidfd_getfd=438
pidfd_open=434 pidfd_send_signal=424 kexec_load=104 init_module=105 finit_module=273
delete_module=106 tkill=130 rt_sigqueueinfo=138 rt_tgsigqueueinfo=240 open_by_handle_at=265
fsopen=430 move_mount=429 open_tree=428 personality=92 mknodat=33""",
}

# calls that are allowed with some arguments only
_GUARDED = {
    "x86_64": "ioctl=16 prlimit64=302 tgkill=234 fcntl=72 clone3=435",
    "aarch64": "ioctl=29 prlimit64=261 tgkill=131 fcntl=25 clone3=435",
}
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def machine() -> str | None:
    """Return "x86_64" or "aarch64", None elsewhere."""
    name = platform.machine()
    return name if name in _AUDIT_ARCH else None


def audit_arch() -> int:
    """Return the number by which seccomp knows this architecture."""
    return _AUDIT_ARCH[platform.machine()]


def allowed() -> dict[str, int]:
    """Return the calls that a student's process may make, whatever the arguments."""
    return _table(_ALLOWED[platform.machine()])


def denied() -> dict[str, int]:
    """Return the calls that a compiler's process may not make."""
    return _table(_DENIED[platform.machine()])


def guarded() -> dict[str, int]:
    """Return the calls whose arguments are looked at."""
    return _table(_GUARDED[platform.machine()])
