"""Runs a command at a terminal of its own. Our standard input is its keyboard, our standard output its screen; when our
input ends, the terminal is closed, as a window is."""
import fcntl
import os
import pty
import select
import struct
import sys
import termios

pid, screen = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    os.execvp(sys.argv[1], sys.argv[1:])

watched = [screen, 0]
while screen in watched:
    for ready in select.select(watched, [], [])[0]:
        if ready == 0:
            keys = os.read(0, 1024)
            if keys:
                os.write(screen, keys)
            else:
                watched.clear()
                os.close(screen)
            break
        try:
            shown = os.read(screen, 65536)
        except OSError:  # Linux says so when the last program has left.
            shown = b""
        if not shown:
            watched.clear()
            break
        os.write(1, shown)

code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
sys.exit(code if code >= 0 else 128 - code)
