"""An agent without a free descriptor: it waits for one, answers then, and burns no processor."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import os, resource, socket, socketserver, threading, time
from wsgiref.simple_server import WSGIServer
from stepwatch.agent.web.server import serve

tries = []
accept = WSGIServer.get_request
def counted(server):
    tries.append(1)
    return accept(server)
WSGIServer.get_request = counted

def answer(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"ok"]

opened = socket.create_server(("127.0.0.1", 0))
serve(opened, answer)
client = socket.socket()
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
taken = []
while True:
    try:
        taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        break
client.connect(opened.getsockname())
client.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
time.sleep(2.0)
without = len(tries)
for each in taken:
    os.close(each)
assert client.recv(100).startswith(b"HTTP/1.0 200"), "it answers once there is a descriptor"
print(without)
"""


def test_without_a_descriptor_it_waits_and_then_answers() -> None:
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=True
    )
    assert 1 <= int(process.stdout) < 100
