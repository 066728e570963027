"""Functions of the user's on each sample or each batch, behind the server's private stage: in the loop, or in
processes of the client."""
from __future__ import annotations
