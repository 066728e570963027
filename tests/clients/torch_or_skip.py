"""Imported first by the tests of tureen.torch: they need PyTorch, and where it is missing they say so."""
import sys

SKIP = 77

try:
    import torch
except ImportError as missing:
    print("=" * 78 + "\nSKIPPED, nothing was tested: %s (apt install python3-torch)\n" % missing + "=" * 78,
          flush=True)
    sys.exit(SKIP)

#  The machine's processors are for the server; the tests compute next to nothing.
torch.set_num_threads(1)
