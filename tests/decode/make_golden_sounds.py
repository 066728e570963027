"""Makes golden/sounds with libsndfile: make_golden_sounds.py (run in this folder)

Sounds that lose something when they are packed, a tenth of a second each, and beside each what libsndfile
reads, times 32768, for test_system_pipelines.py.  That one makes the sounds that lose nothing itself.
"""
import ctypes
import os

import numpy

RATE, FRAMES, READ_MAX = 8000, 800, 4000
READ, WRITE = 0x10, 0x20
KINDS = {"opus.ogg": 0x200000 | 0x64, "layer3.mp3": 0x230000 | 0x82}    # SF_FORMAT_OGG, _MPEG, their codecs

sndfile = ctypes.CDLL("libsndfile.so.1")
sndfile.sf_open.restype = ctypes.c_void_p


class Info(ctypes.Structure):
    _fields_ = [("frames", ctypes.c_int64), ("rate", ctypes.c_int), ("channels", ctypes.c_int),
                ("format", ctypes.c_int), ("sections", ctypes.c_int), ("seekable", ctypes.c_int)]


def carry_out(path, mode, info, call, values):
    sound = sndfile.sf_open(path.encode(), mode, ctypes.byref(info))
    assert sound, path
    count = call(ctypes.c_void_p(sound), values.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(len(values)))
    sndfile.sf_close(ctypes.c_void_p(sound))
    return count


def main():
    sndfile.sf_readf_float.restype = sndfile.sf_writef_float.restype = ctypes.c_int64
    os.makedirs("golden/sounds", exist_ok=True)
    times = numpy.arange(FRAMES) / RATE
    tone = (.5 * numpy.sin(2 * numpy.pi * 440 * times) + .2 * numpy.sin(2 * numpy.pi * 1100 * times))
    for name, kind in KINDS.items():
        path = "golden/sounds/" + name
        carry_out(path, WRITE, Info(rate=RATE, channels=1, format=kind), sndfile.sf_writef_float,
                  tone.astype(numpy.float32))
        values = numpy.zeros(READ_MAX, numpy.float32)
        count = carry_out(path, READ, Info(), sndfile.sf_readf_float, values)
        numpy.save(path + ".npy", numpy.rint(values[:count] * 32768).astype(numpy.int16))
        lags = [abs(values[lag:lag + FRAMES] - tone)[100:700].max() for lag in range(READ_MAX - FRAMES)]
        print("%s: %d bytes, %d frames, at most %.3f from the tone behind frame %d"
              % (name, os.path.getsize(path), count, min(lags), numpy.argmin(lags)))


if __name__ == "__main__":
    main()
