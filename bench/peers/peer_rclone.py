"""PyTorch's DataLoader on a bucket that rclone mounts: one mount for all jobs, nothing kept on disk."""

from __future__ import annotations

import os

import peer_mount
import peer_pytorch
import peer_s3fs
from peer import Settings

prepare = peer_pytorch.prepare
batches = peer_s3fs.batches


def serve(settings: Settings) -> None:
    own = dict(os.environ, RCLONE_CONFIG="")        # no file of the caller's own
    #  rclone 1.60 ends where a certificate bundle is named; the store of the bench has no certificate.
    own.pop("AWS_CA_BUNDLE", None)
    command = ["rclone", "mount", ":s3:bucket", peer_mount.mount_folder(settings), "--read-only",
               "--s3-provider", "Other", "--s3-env-auth", "--s3-endpoint", own["S3_ENDPOINT_URL"],
               "--s3-region", own["AWS_REGION"]]
    peer_mount.serve_mount(settings, command, own)
