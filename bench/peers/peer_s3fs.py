"""PyTorch's DataLoader on a bucket that s3fs mounts: one mount for all jobs, nothing kept on disk."""

from __future__ import annotations

import os
from typing import Iterator

import peer_mount
import peer_pytorch
from peer import Settings, key_of

prepare = peer_pytorch.prepare


def serve(settings: Settings) -> None:
    own = os.environ
    #  dbglevel: errors alone, so that a job's last words are not lost among others.
    command = ["s3fs", "bucket", peer_mount.mount_folder(settings), "-f", "-o",
               f"ro,url={own['S3_ENDPOINT_URL']},endpoint={own['AWS_REGION']},use_path_request_style,"
               "listobjectsv2,dbglevel=err"]
    peer_mount.serve_mount(settings, command, dict(own, AWSACCESSKEYID=own["AWS_ACCESS_KEY_ID"],
                                                   AWSSECRETACCESSKEY=own["AWS_SECRET_ACCESS_KEY"]))


def batches(settings: Settings, job: int) -> Iterator[int]:
    folder = f"{peer_mount.mount_folder(settings)}/{key_of(settings, settings.photographs)}"
    return peer_pytorch.batches(settings._replace(photographs=folder), job)
