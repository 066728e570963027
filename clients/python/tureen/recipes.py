"""Pipelines that are well known, as values of tureen.transforms.

    loader = tureen.Loader(dataset="train", pipeline=tureen.recipes.imagenet_train())

They give uint8 images, channels last: the fewest bytes, and what is left is quickest on the device
(docs/clients.md).  With `tensor=True` they end as torchvision's do: ToTensor and Normalize.
"""
from __future__ import annotations

import math
from typing import List, Optional, Sequence, Tuple, Union

from . import transforms as T

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
CIFAR100_MEAN, CIFAR100_STD = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)
MNIST_MEAN, MNIST_STD = (0.1307,), (0.3081,)


def imagenet_train(size: int = 224, *, scale: Tuple[float, float] = (0.08, 1.0),
                   interpolation: str = "bilinear", color_jitter: Optional[float] = None,
                   auto_augment: Optional[str] = None, magnitude: int = 9, random_erase: float = 0.0,
                   tensor: bool = False) -> T.Compose:
    """A random resized crop, which jobs share, and a flip, which each job has for itself; the recipe "train"
    of the server.

    For each job by itself, too: `color_jitter`, brightness, contrast and saturation by so much; and
    `auto_augment`, as in torchvision's reference script: "ra" (RandAugment of this magnitude), "ta_wide"
    (TrivialAugmentWide), or AutoAugment's policy "imagenet", "cifar10" or "svhn".  `random_erase` is the
    probability of torchvision's RandomErasing, which needs `tensor`."""
    steps: List[T.Transform] = [T.RandomResizedCrop(size, scale=scale, interpolation=interpolation),
                                T.Share(), T.RandomHorizontalFlip()]
    if color_jitter is not None:
        steps.append(T.ColorJitter(color_jitter, color_jitter, color_jitter))
    if auto_augment == "ra":
        steps.append(T.RandAugment(magnitude=magnitude, interpolation=interpolation))
    elif auto_augment == "ta_wide":
        steps.append(T.TrivialAugmentWide(interpolation=interpolation))
    elif auto_augment is not None:
        steps.append(T.AutoAugment(auto_augment, interpolation=interpolation))
    return T.Compose(steps + _end(tensor, IMAGENET_MEAN, IMAGENET_STD, random_erase))


def imagenet_eval(size: int = 224, *, resize: Optional[int] = None, interpolation: str = "bilinear",
                  tensor: bool = False) -> T.Compose:
    """The shorter side becomes `resize` (size / 0.875: 256 of 224), and the middle is taken; the server's
    recipe "eval"."""
    shorter = round(size / 0.875) if resize is None else resize
    return T.Compose([T.Resize(shorter, interpolation=interpolation), T.CenterCrop(size), T.Share(),
                      *_end(tensor, IMAGENET_MEAN, IMAGENET_STD)])


def timm_train(size: int = 224, *, scale: Tuple[float, float] = (0.08, 1.0), interpolation: str = "random",
               color_jitter: float = 0.4, random_erase: float = 0.0, tensor: bool = False) -> T.Compose:
    """What timm's train.py does by default: of each image it draws whether it is resized by bilinear or by
    bicubic interpolation.

    Jobs share the crop; flip and jitter each job has for itself.  `random_erase`: as timm with
    re_mode="const"; it needs `tensor`."""
    return T.Compose([
        T.RandomResizedCrop(size, scale=scale, interpolation=interpolation), T.Share(),
        T.RandomHorizontalFlip(), T.ColorJitter(color_jitter, color_jitter, color_jitter),
        *_end(tensor, IMAGENET_MEAN, IMAGENET_STD, random_erase, (0.02, 1 / 3), (0.3, 1 / 0.3))])


def timm_eval(size: int = 224, *, crop_pct: float = 0.875, interpolation: str = "bicubic",
              tensor: bool = False) -> T.Compose:
    """timm's evaluation: the shorter side becomes size / crop_pct, rounded down, and the middle is taken."""
    return T.Compose([T.Resize(math.floor(size / crop_pct), interpolation=interpolation), T.CenterCrop(size),
                      T.Share(), *_end(tensor, IMAGENET_MEAN, IMAGENET_STD)])


def moco_v2(size: int = 224, *, views: int = 2, scale: Tuple[float, float] = (0.2, 1.0),
            tensor: bool = False) -> T.Compose:
    """Several views of each sample for contrastive learning, as MoCo v2 makes them: `image`, `image_2` ...
    Jobs share the crops; each has colours, blur and flips of its own."""
    return T.Compose([
        T.Views(views), T.RandomResizedCrop(size, scale=scale), T.Share(),
        T.RandomApply([T.ColorJitter(0.4, 0.4, 0.4, 0.1)], 0.8), T.RandomGrayscale(0.2),
        T.RandomApply([T.PillowGaussianBlur((0.1, 2.0))]), T.RandomHorizontalFlip(),
        *_end(tensor, IMAGENET_MEAN, IMAGENET_STD)])


def cifar_train(size: int = 32, *, padding: int = 4, padding_mode: str = "constant",
                mean: Union[float, Sequence[float]] = CIFAR10_MEAN,
                std: Union[float, Sequence[float]] = CIFAR10_STD, tensor: bool = False) -> T.Compose:
    """A border, a random crop of the old size, and a flip.

    Images are small, and of one size: jobs share them as they are decoded, and each has crops and flips of
    its own.  For CIFAR-100 give CIFAR100_MEAN and CIFAR100_STD, for SVHN and the like yours."""
    return T.Compose([T.Resize((size, size)), T.Share(),
                      T.RandomCrop(size, padding=padding, padding_mode=padding_mode),
                      T.RandomHorizontalFlip(), *_end(tensor, mean, std)])


def cifar_eval(size: int = 32, *, mean: Union[float, Sequence[float]] = CIFAR10_MEAN,
               std: Union[float, Sequence[float]] = CIFAR10_STD, tensor: bool = False) -> T.Compose:
    """The image as it is: of another size it would be resized."""
    return T.Compose([T.Resize((size, size)), T.Share(), *_end(tensor, mean, std)])


def mnist(size: int = 28, *, tensor: bool = False) -> T.Compose:
    """One channel; for training and for evaluation."""
    return T.Compose([T.Resize((size, size)), T.Grayscale(), T.Share(), *_end(tensor, MNIST_MEAN, MNIST_STD)])


def _end(tensor: bool, mean: Union[float, Sequence[float]], std: Union[float, Sequence[float]],
         random_erase: float = 0.0, area: Tuple[float, float] = (0.02, 0.33),
         ratio: Tuple[float, float] = (0.3, 3.3)) -> List[T.Transform]:
    if random_erase and not tensor:
        raise ValueError("random_erase is done to normalized images: give tensor=True, or erase in the batch")
    erasing: List[T.Transform] = [T.RandomErasing(random_erase, area, ratio)] if random_erase else []
    return [T.ToTensor(), T.Normalize(mean, std), *erasing] if tensor else []
