"""An S3 server of moto on a free port of this machine, until standard input ends."""

import os
import sys
import threading

from moto.moto_server.threaded_moto_server import ThreadedMotoServer
from moto.s3.models import s3_backends
from moto.s3.responses import S3Response

# S3 compares and writes in one step. moto looks first and writes then, on as many threads as there
# are requests, so that two writers could both be told that they were first.
ONE_STEP = threading.Lock()
put_object = S3Response.put_object


def put_object_in_one_step(self):
    with ONE_STEP:
        return put_object(self)


S3Response.put_object = put_object_in_one_step
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
_, port = server.get_host_and_port()
s3_backends["123456789012"]["aws"].create_bucket(sys.argv[1], "us-east-1")
print(port, flush=True)
sys.stdin.read()
os._exit(0)
