"""A tureen.Loader as Keras 3 takes it, with any of its backends.

    train = tureen.keras.Dataset(tureen.Loader(dataset="train", batch_size=64, shuffle=True))
    model.fit(train, epochs=3, shuffle=False)
"""
from __future__ import annotations

from typing import Any, Dict, Iterator, Optional, Sequence, Union

import keras

from .batch import Batch
from .errors import StateError
from .loader import Loader

Names = Union[str, Sequence[str]]


class Dataset(keras.utils.PyDataset):       # type: ignore[misc]
    """An epoch of the loader for each of Keras's.

    loader      made without `epochs`: `fit` says how many there are
    inputs      the field that the model gets; of several a dict of them by name
    targets     the field that the loss gets, or several; None: none, as for `predict`

    Each epoch has every sample once.  Where Keras takes some batches and then begins anew, as `fit` does to
    see what shapes there are, the loader goes back to where that epoch began.  The loader's `state_dict`
    counts the batches that Keras was given.  Behind its `load_state_dict` or `set_epoch` Keras's next epoch
    is that one; a state in the midst of an epoch is refused.
    """

    def __init__(self, loader: Loader, inputs: Names = "image", targets: Optional[Names] = "label") -> None:
        super().__init__()
        if not isinstance(loader, Loader):
            raise TypeError(f"loader must be a tureen.Loader, which gives NumPy arrays, not {loader!r}")
        if loader.epochs is not None:
            raise ValueError(f"the loader ends after {loader.epochs} epochs: leave its epochs out, and give "
                             "them to fit()")
        self._loader = loader
        self._inputs, self._targets = inputs, targets
        self._batches: Iterator[Batch] = iter(())
        self._begin: Dict[str, Any] = {}        # the loader's state there
        self._count = self._given = 0           # batches of the epoch, and those that Keras has

    @property
    def num_batches(self) -> int:
        return self._loader.steps_per_epoch

    def __len__(self) -> int:
        return self.num_batches

    def __getitem__(self, index: int) -> Any:
        """The next batch; of index 0 an epoch's first."""
        if index == 0:
            self._begin_epoch()
        elif index != self._given:
            raise ValueError("Keras shuffles the batches, and can have them in the server's order only: give "
                             "fit() shuffle=False, and the loader shuffle=True")
        batch = next(self._batches)
        self._given += 1
        inputs = _chosen(batch, self._inputs)
        return (inputs,) if self._targets is None else (inputs, _chosen(batch, self._targets))

    def _begin_epoch(self) -> None:
        goes_on = self._loader._runs(self._batches)
        if goes_on and self._given < self._count:
            self._loader.load_state_dict(self._begin)
            goes_on = False
        if not goes_on:
            self._batches = self._at_beginning()
        self._begin = self._loader.state_dict()
        self._count, self._given = self.num_batches, 0

    def _at_beginning(self) -> Iterator[Batch]:
        """Keras asks once how many batches an epoch has: one that is shorter would shift all later ones."""
        batches = iter(self._loader)
        state = self._loader.state_dict()
        if int(state["batches"]):
            self._loader.load_state_dict(state)
            epoch = int(state["epoch"])
            raise StateError(f"the loader's state is behind {state['batches']} batches of epoch {epoch}, and "
                             "each of Keras's epochs is a whole one: load a state of an epoch's end, or "
                             f"leave out the rest of this one by the loader's set_epoch({epoch + 1})")
        return batches


def _chosen(batch: Batch, names: Names) -> Any:
    return batch[names] if isinstance(names, str) else {name: batch[name] for name in names}
