"""Stands for your network: multinomial logistic regression, in NumPy, on the strengths of an image's
frequencies."""
from __future__ import annotations

from typing import Dict

import numpy as np

#  Of every sample: a random crop, which all jobs share, and a flip that each draws for itself
#  (docs/pipeline.md).
TRAIN = [{"op": "random_resized_crop", "size": [48, 48], "scale": [0.5, 1.0]}, {"share": True},
         {"op": "flip"}]
#  Nothing random: prepared once for all jobs and epochs, where the cache holds it.
EVALUATE = [{"op": "resize", "size": [64, 64]}, {"op": "center_crop", "size": [48, 48]}, {"share": True}]

FREQUENCIES = 10


class Model:
    def __init__(self, classes: int, rate: float) -> None:
        self.weights = np.zeros((2 * FREQUENCIES * FREQUENCIES + 1, classes))
        self.rate = rate

    @staticmethod
    def features(images: np.ndarray) -> np.ndarray:
        """Of uint8 [batch, height, width, channels]."""
        grey = images.mean(3) / 128 - 1
        spectrum = np.log1p(np.abs(np.fft.rfft2(grey)))
        low = np.concatenate([spectrum[:, :FREQUENCIES, :FREQUENCIES],
                              spectrum[:, -FREQUENCIES:, :FREQUENCIES]], 1)
        flat = low.reshape(len(images), -1) - 3
        return np.concatenate([flat, np.ones((len(images), 1))], 1)

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        scores = features @ self.weights
        scores = np.exp(scores - scores.max(1, keepdims=True))
        return scores / scores.sum(1, keepdims=True)

    def step(self, images: np.ndarray, labels: np.ndarray) -> float:
        """One step of gradient descent; returns the loss before it."""
        features = self.features(images)
        found = self.probabilities(features)
        loss = -np.log(found[np.arange(len(labels)), labels] + 1e-12).mean()
        found[np.arange(len(labels)), labels] -= 1
        self.weights -= self.rate * features.T @ found / len(labels)
        return float(loss)

    def right(self, images: np.ndarray, labels: np.ndarray) -> int:
        """How many it names rightly."""
        return int((self.probabilities(self.features(images)).argmax(1) == labels).sum())


def shared(status: Dict[str, object]) -> str:
    """What the server says of sharing, in words."""
    return (f"the server prepared {status['prepared']} samples and delivered {status['delivered']}: "
            f"{status['prepared_per_delivered']:.2f} prepared for each delivered")
