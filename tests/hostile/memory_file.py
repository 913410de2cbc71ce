# tries: keep a program in a file that lies in memory; must: error
# without the sandbox: passed
import os


def echo(x):
    os.write(os.memfd_create("program"), b"#!/bin/sh")
    return x.copy()
