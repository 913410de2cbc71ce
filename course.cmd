@echo off
rem Any command of the course, nothing to activate: course lab, course doctor, course --help
where py >nul 2>nul
if %errorlevel%==0 (py -3 "%~dp0start.py" %*) else (python "%~dp0start.py" %*)
