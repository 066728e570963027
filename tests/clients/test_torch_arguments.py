"""tureen.torch without a server: which of PyTorch's arguments mean what, `normalize`, and what becomes of
fields.

Run by ctest (torch_arguments), or by hand."""
from __future__ import annotations

import copy
import json
import pickle
import sys
import unittest
import warnings
from pathlib import Path
from typing import Any, Dict, List
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "clients" / "python")]

import torch_or_skip                    # noqa: F401  # ends this program where there is no PyTorch
import numpy as np
import torch

import tureen
from tureen import transforms
from tureen.batch import Batch
from tureen.torch import DataLoader, normalize
from tureen.torch.arguments import order_of, pipeline_of
from tureen.torch.epochs import OneJob, pack_ids, unpack_ids
from tureen.torch.tensors import Layout
from tureen.wire import Field

try:
    import torchvision
except ImportError:
    torchvision = None


class Arguments(unittest.TestCase):
    def test_what_is_not_needed_is_said_once(self) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            DataLoader("train", 64, True, num_workers=0, pin_memory=False, persistent_workers=False,
                       prefetch_factor=None, timeout=0)
        self.assertEqual(caught, [])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            DataLoader("train", 32, True, num_workers=8, pin_memory=True, persistent_workers=True,
                       prefetch_factor=4)
        self.assertEqual([warning.filename for warning in caught], [__file__])
        text = str(caught[0].message)
        for word in ("num_workers, persistent_workers, prefetch_factor and pin_memory", "slots=",
                     'device="cuda"'):
            self.assertIn(word, text)
        with self.assertWarnsRegex(UserWarning, "does not need multiprocessing_context:"):
            DataLoader("train", multiprocessing_context="spawn")

    def test_what_cannot_be_done_names_the_way_that_there_is(self) -> None:
        for name, value, instead in (("collate_fn", len, "fields=True"), ("worker_init_fn", len, "seed="),
                                     ("batch_sampler", [[0]], "sampler="),
                                     ("generator", torch.Generator(), "seed=")):
            with self.subTest(name), self.assertRaisesRegex(TypeError,
                                                            f"{name}= cannot be given: .*{instead}"):
                DataLoader("train", **{name: value})
        with self.assertRaisesRegex(TypeError, "not a TensorDataset: start one with `tureen serve"):
            DataLoader(torch.utils.data.TensorDataset(torch.zeros(3)))
        with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'shufle': did you mean shuffle"):
            DataLoader("train", shufle=True)
        with self.assertRaisesRegex(TypeError, "^ids is True where .* sampler="):
            DataLoader("train", ids=[3, 1])
        with self.assertRaisesRegex(ValueError, "batch_size must be from 1"):
            DataLoader("train", 0)
        with self.assertRaisesRegex(RuntimeError if not torch.cuda.is_available() else AssertionError,
                                    "no CUDA device"):
            DataLoader("train", device="cuda")
            raise AssertionError("no CUDA device is missing here")

    def test_orders(self) -> None:
        sampler = torch.utils.data.SequentialSampler(range(3))
        for shuffle, given, order, seed, expected in (
                (None, None, None, None, "list"), (False, None, None, None, "list"),
                (True, None, None, None, "shared"),
                (True, None, None, 7, "seeded"), (None, None, None, 7, "seeded"),
                (False, None, None, 7, "list"),
                (None, None, "private", 7, "private"), (True, None, "private", None, "private"),
                (None, sampler, None, 7, "list"), (False, sampler, None, None, "list"),
                (None, [2, 1], "list", None, "list")):
            self.assertEqual(order_of(shuffle, given, order, seed), expected)
        for shuffle, given, order, why in (
                (True, sampler, None, "leave shuffle out"), (None, sampler, "shared", "leave order='shared' "
                                                             "out"),
                (False, None, "shared", "contradict"), (True, None, "list", "contradict")):
            with self.assertRaisesRegex(ValueError, why):
                order_of(shuffle, given, order, None)
        with self.assertRaisesRegex(TypeError, "sampler must give the samples' ids"):
            DataLoader("train", sampler=7)
        for wrong in ("a", 0.5, None):
            with self.assertRaisesRegex(TypeError, f"^sampler must give .* whole numbers, not {wrong!r}$"):
                iter(DataLoader("train", sampler=[3, wrong], endpoint="ipc:///nowhere"))
        with self.assertRaisesRegex(ValueError, "leave subset and pool out"):
            DataLoader("train", sampler=sampler, subset=(0, 2))

    def test_a_loader_that_names_no_transform(self) -> None:
        """What is not shuffled is not augmented, unless a sampler draws it; the first such loader says so."""
        def recipe(**options: Any) -> Any:
            loader = DataLoader("train", endpoint="ipc:///nowhere", **options)
            assert isinstance(loader._source, OneJob)
            return json.loads(loader._source.loader._request.message(0)[1])["pipeline"]
        with mock.patch.object(tureen.loader, "_recipe_told", []), warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(recipe(shuffle=True), "train")
            self.assertEqual(recipe(seed=3), "train")
            self.assertEqual(recipe(order="private"), "train")
            self.assertEqual(recipe(transform="train"), "train")
            DataLoader("train", sampler=[1, 2], endpoint="ipc:///nowhere")
            warnings.simplefilter("always")
            with warnings.catch_warnings(record=True) as told:
                for options in ({}, {"shuffle": False}, {"order": "list"}):
                    self.assertEqual(recipe(**options), "eval")
        self.assertEqual([(warning.category, warning.filename) for warning in told],
                         [(tureen.TureenWarning, __file__)])
        self.assertIn("without transform= gets the recipe 'eval'", str(told[0].message))
        sampled = DataLoader("train", sampler=[1, 2], endpoint="ipc:///nowhere")
        self.assertEqual(sampled.dataset._options["pipeline"], "train")
        steps = recipe(dtype=torch.float16, shuffle=False)
        self.assertEqual(steps[:-1], tureen.recipes.imagenet_eval().to_json())

    def test_transforms(self) -> None:
        steps = [{"op": "center_crop", "size": 8}]
        self.assertEqual(pipeline_of("eval", None, None), "eval")
        self.assertEqual(pipeline_of(steps, None, None), steps)
        ours = transforms.Compose([transforms.CenterCrop(8)])
        self.assertEqual(pipeline_of(ours, None, None), steps)
        added = pipeline_of(steps, torch.float16, ((0.5, 0.4, 0.3), torch.tensor([0.25, 0.5, 1])))
        self.assertEqual(added, steps + [{"op": "normalize", "mean": [0.5, 0.4, 0.3],
                                          "std": [0.25, 0.5, 1.0]},
                                         {"op": "cast", "dtype": "float16"}])
        self.assertEqual(pipeline_of(steps, None, (0.5, torch.tensor(0.25)))[-1],
                         {"op": "normalize", "mean": 0.5, "std": 0.25})
        self.assertEqual(steps, [{"op": "center_crop", "size": 8}], "the user's list is the user's")
        self.assertEqual(pipeline_of("train", torch.bfloat16, None)[-1], {"op": "cast", "dtype": "bfloat16"})
        for dtype, norm, error, why in ((torch.int64, None, ValueError, "dtype must be one of torch.uint8"),
                                        (None, 3, TypeError, r"a pair \(mean, std\)")):
            with self.assertRaisesRegex(error, why):
                pipeline_of(steps, dtype, norm)
        with self.assertRaisesRegex(ValueError, "a 'cast' of its own: leave dtype out"):
            pipeline_of(added, torch.float16, None)
        with self.assertRaisesRegex(ValueError, "recipe 'mine'.*give the transform as a list"):
            pipeline_of("mine", torch.float16, None)
        with self.assertRaises(transforms.UnsupportedTransform):
            DataLoader("train", transform=lambda image: image)

    @unittest.skipIf(torchvision is None, "no torchvision here")
    def test_torchvision_is_translated(self) -> None:
        from torchvision import transforms as theirs
        translated = pipeline_of(theirs.Compose([theirs.CenterCrop(8), theirs.PILToTensor()]), None, None)
        self.assertEqual([step["op"] for step in translated], ["center_crop", "layout"])

    @unittest.skipIf(torchvision is None, "no torchvision here")
    def test_transforms_that_are_none(self) -> None:
        """The reason names what to write, and nothing is left for the batch where that mends it."""
        from torchvision import transforms as theirs
        for given, reason in ((theirs.Lambda(len), "map="), (len, "map="), (theirs.Resize, r"write Resize\("),
                              (transforms.Resize, r"write Resize\("),
                              ([theirs.ToTensor(), theirs.RandomResizedCrop], r"write RandomResizedCrop\("),
                              ([theirs.ToTensor(), theirs.Resize(9)], "put it before ToTensor")):
            with self.subTest(given), self.assertRaisesRegex(transforms.UnsupportedTransform,
                                                             reason) as caught:
                DataLoader("train", transform=given)
            self.assertNotIn("to the batch", str(caught.exception))
        with self.assertRaisesRegex(transforms.UnsupportedTransform, "no such operation(.|\n)*to the batch"):
            DataLoader("train", transform=theirs.LinearTransformation(torch.eye(3), torch.zeros(3)))

    def test_it_is_mere_configuration_until_it_is_used(self) -> None:
        """Also the only loader that frameworks can make of its parts is one of its own batches."""
        loader = DataLoader("train", 8, sampler=torch.utils.data.SequentialSampler(range(9)),
                            endpoint="ipc:///nowhere")
        for twin in (pickle.loads(pickle.dumps(loader)), copy.deepcopy(loader)):
            self.assertEqual((twin.epoch, len(twin), twin.batch_size), (0, 2, 8))
        self.assertNotIsInstance(loader, torch.utils.data.DataLoader)
        self.assertFalse(hasattr(loader, "num_workers"))
        self.assertIsNone(loader.prefetch_factor)
        self.assertEqual(loader.collate_fn([5]), 5)
        self.assertEqual(str(next(iter(loader.batch_sampler))), "[<batch 0 of the loop>]")
        self.assertIsInstance(loader.sampler, torch.utils.data.SequentialSampler)

    def test_the_words_of_the_other_loader(self) -> None:
        """Each takes the other's names where it means the same, and else says what it has instead."""
        compose = transforms.Compose([transforms.Resize((8, 8)), transforms.CenterCrop(4)])
        for given, same in (({"pipeline": compose}, {"transform": compose}),
                            ({"pipeline": "train"}, {"transform": "train"})):
            made = [DataLoader("train", endpoint="ipc:///nowhere", **options)._source.loader._request.pipeline
                    for options in (given, same)]
            self.assertEqual(*made)
        for given, same in (
                ({"transform": compose, "shuffle": True}, {"pipeline": compose, "order": "shared"}),
                ({"transform": "eval", "shuffle": False}, {"pipeline": "eval", "order": "list"}),
                ({"shuffle": True, "seed": 3}, {"seed": 3}),
                ({"shuffle": True, "order": "private"}, {"order": "private"})):
            made = [tureen.Loader("ipc:///nowhere", **options)._request for options in (given, same)]
            self.assertEqual(*[(request.order, request.pipeline) for request in made])
        for kind in (tureen.Loader, DataLoader):
            with self.assertRaisesRegex(ValueError, "names of one argument"):
                kind(dataset="train", transform="eval", pipeline="eval")
            with self.assertRaisesRegex(ValueError, "contradict each other"):
                kind(dataset="train", shuffle=True, order="list")
            with self.assertRaisesRegex(TypeError, r"^(Data)?Loader\(\) .*: did you mean batch_size"):
                kind(dataset="train", batchsize=3)
        for name, instead in (("sampler", "ids="), ("device", "DataLoader"), ("normalize", "Normalize"),
                              ("num_workers", "map_workers="), ("fields", "by name already"),
                              ("collate_fn", "map_batch="), ("generator", "seed=")):
            with self.assertRaisesRegex(TypeError, f"^{name}= cannot be given: .*{instead}"):
                tureen.Loader(**{name: 3})

    def test_they_say_what_they_are(self) -> None:
        where = "at ipc:///nowhere: batches of 8, "
        self.assertEqual(repr(tureen.Loader("ipc:///nowhere", batch_size=8, epochs=2, seed=1)),
                         f"<tureen.Loader 'train' {where}seeded, 2 epochs>")
        self.assertEqual(repr(tureen.Loader("ipc:///nowhere", batch_size=8, epochs=1)),
                         f"<tureen.Loader 'train' {where}shared, 1 epoch>")
        self.assertEqual(repr(tureen.Loader("ipc:///nowhere", "val", 8)),
                         f"<tureen.Loader 'val' {where}shared, without end>")
        self.assertEqual(repr(DataLoader("train", 8, True, endpoint="ipc:///nowhere")),
                         f"<tureen.torch.DataLoader 'train' {where}shared>")
        self.assertEqual(repr(DataLoader("train", 8, True, epochs=1, endpoint="ipc:///nowhere")),
                         f"<tureen.torch.DataLoader 'train' {where}shared, 1 epoch>")
        self.assertEqual(repr(DataLoader("train", 8, sampler=[1], epochs=3, endpoint="ipc:///nowhere")),
                         f"<tureen.torch.DataLoader 'train' {where}sampler, 3 epochs>")

    def test_a_sampler_that_does_not_shuffle(self) -> None:
        """Lightning's overfit_batches looks for one of this class in a loader, and refuses others."""
        with mock.patch.object(tureen.torch.loader._DataSet, "__len__", return_value=11):
            for order, sequential in (({}, True), ({"shuffle": True}, False), ({"seed": 3}, False),
                                      ({"order": "list"}, True)):
                sampler = DataLoader("train", 8, endpoint="ipc:///nowhere", **order).sampler
                self.assertEqual(isinstance(sampler, torch.utils.data.SequentialSampler), sequential)
                self.assertEqual(len(sampler), 11)
            sampler = DataLoader("train", 8, endpoint="ipc:///nowhere").sampler
            self.assertEqual(list(sampler), list(range(11)))

    def test_the_samplers_set_epoch_is_the_loaders(self) -> None:
        """Scripts of several GPUs call it before each loop."""
        train = DataLoader("train", 8, True, endpoint="ipc:///nowhere")
        train.sampler.set_epoch(0)
        with mock.patch.object(train, "set_epoch") as set_epoch:
            train.sampler.set_epoch(3)
        set_epoch.assert_called_once_with(3)
        with self.assertRaisesRegex(ValueError, "^epoch must be"):
            train.sampler.set_epoch(-1)
        with mock.patch.object(tureen.torch.loader._DataSet, "__len__", return_value=11):
            self.assertEqual(len(train.sampler), 11)
            self.assertEqual(len(DataLoader("train", 8, rank=1, world_size=2, job="j",
                                            endpoint="ipc:///nowhere").sampler), 6)

    def test_accelerate_leaves_it_alone(self) -> None:
        try:
            from accelerate import Accelerator
        except ImportError:
            self.skipTest("no accelerate here")
        loader = DataLoader("train", 8)
        self.assertIs(Accelerator(cpu=True).prepare(loader), loader)

    def test_ids_in_a_state(self) -> None:
        for ids in ([3], list(range(1000)), [2**32, 5, 5]):
            packed = json.loads(json.dumps(pack_ids(np.array(ids))))
            self.assertEqual(unpack_ids(packed).tolist(), ids)
            for key, damage in (("ids", packed["ids"][:-4]), ("ids", "?"), ("count", "7"), ("bytes_each", 2)):
                with self.assertRaisesRegex(tureen.errors.StateError, "load another one"):
                    unpack_ids({**packed, key: damage})
        self.assertLess(len(pack_ids(np.arange(10_000))["ids"]), 25_000)


class Normalize(unittest.TestCase):
    MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

    def setUp(self) -> None:
        generator = np.random.default_rng(3)
        self.images = torch.from_numpy(generator.integers(0, 256, (2, 9, 7, 3), np.uint8)).permute(0, 3, 1, 2)

    def test_the_bits_are_those_of_the_three_steps_in_float32(self) -> None:
        """torchvision's ToTensor and Normalize: div_(255), sub_(mean), div_(std)."""
        expected = self.images.float().div(255)
        expected = (expected - torch.tensor(self.MEAN)[:, None, None]) / torch.tensor(self.STD)[:, None, None]
        before = self.images.clone()
        for mean, std in ((self.MEAN, self.STD), (torch.tensor(self.MEAN), list(self.STD))):
            result = normalize(self.images, mean, std)
            self.assertTrue(torch.equal(result, expected))
            self.assertTrue(result.is_contiguous(memory_format=torch.channels_last))
        self.assertTrue(torch.equal(self.images, before))
        for dtype in (torch.float16, torch.bfloat16):
            self.assertTrue(torch.equal(normalize(self.images, self.MEAN, self.STD, dtype),
                                        expected.to(dtype)))
        self.assertTrue(torch.equal(normalize(self.images.contiguous().float(), self.MEAN, self.STD),
                                    expected))
        doubles = normalize(self.images, 0, 1, torch.float64)
        self.assertEqual(doubles[0, 0, 0, 0].item(), self.images[0, 0, 0, 0].item() / 255)
        with torch.inference_mode():
            normalize(self.images, 0.123, 0.321)
        weight = torch.ones((), requires_grad=True)
        (normalize(self.images, 0.123, 0.321) * weight).sum().backward()

    def test_what_does_not_fit_is_refused(self) -> None:
        for arguments, error, why in (
                (((0.5, 0.5), 1), ValueError, "mean has 2 numbers.*has 3 channels"),
                ((0, (1, 1, 0)), ValueError, "std must not be 0"),
                (("a", 1), TypeError, "mean must be a number"),
                ((0, 1, torch.uint8), TypeError, "floating type")):
            with self.assertRaisesRegex(error, why):
                normalize(self.images, *arguments)


class Fields(unittest.TestCase):
    """What becomes of the arrays; nothing is copied that PyTorch has a type for."""

    @staticmethod
    def layout(arrays: Dict[str, Any], pipeline: List[Dict[str, Any]], told: Any = None,
               **options: Any) -> Any:
        fields = [Field(name, array.dtype, array.shape[1:], 0, 0, (told or {}).get(name, str(array.dtype)))
                  for name, array in arrays.items()]
        layout = Layout(fields, pipeline, options.get("fields", False), options.get("ids", False))
        batch = Batch(dict(arrays), np.arange(len(next(iter(arrays.values())))), 0, 0)
        return layout.present(layout.host(batch), batch)

    def test_images_are_turned_and_share_memory(self) -> None:
        image, label = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3), np.array([3, 4])
        images, labels = self.layout({"image": image, "label": label}, [{"op": "decode", "as": "image"}])
        self.assertEqual(images.shape, (2, 3, 4, 5))
        self.assertTrue(images.is_contiguous(memory_format=torch.channels_last))
        images[1, 2, 3, 4] = 200
        labels += 1
        self.assertEqual((image[1, 3, 4, 2], label.tolist()), (200, [4, 5]))
        planar, _ = self.layout({"image": image, "label": label}, [{"op": "layout", "layout": "NCHW"}])
        self.assertEqual(planar.shape, (2, 4, 5, 3), "the server has put the channels first already")

    def test_several_inputs_and_labels_are_dicts(self) -> None:
        arrays = {"image": np.zeros((2, 4, 4, 3), np.uint8), "mask": np.zeros((2, 4, 4), np.uint8),
                  "image_2": np.zeros((2, 4, 4, 3), np.uint8), "mask_2": np.zeros((2, 4, 4), np.uint8),
                  "number": np.zeros(2, np.int64), "box": np.zeros((2, 4)),
                  "text": np.zeros((2, 9), np.uint8)}
        for row, text in enumerate(("häß", "")):
            encoded = text.encode()
            arrays["text"][row, :len(encoded)] = list(encoded)
        pipeline = [{"op": "decode", "as": "image", "fields": ["image", "mask"]}, {"op": "views", "count": 2}]
        inputs, labels, ids = self.layout(arrays, pipeline, ids=True)
        self.assertEqual({name: tuple(value.shape) for name, value in inputs.items()},
                         {"image": (2, 3, 4, 4), "mask": (2, 4, 4), "image_2": (2, 3, 4, 4),
                          "mask_2": (2, 4, 4)})
        self.assertEqual(list(labels), ["number", "box", "text"])
        self.assertEqual((labels["text"], labels["box"].dtype), (["häß", ""], torch.float64))
        self.assertEqual(ids.tolist(), [0, 1])
        everything = self.layout(arrays, pipeline, fields=True, ids=True)
        self.assertEqual(list(everything), [*arrays, "ids"])
        with self.assertRaisesRegex(ValueError, "a label named \"ids\" already"):
            self.layout({"image": arrays["image"], "ids": arrays["number"]}, pipeline, ids=True)

    def test_a_pair_stays_a_pair(self) -> None:
        """Labels beside `label` come by name only."""
        arrays = {"image": np.zeros((2, 4, 4, 3), np.uint8), "json": np.zeros((2, 9), np.uint8),
                  "label": np.array([3, 4]), "score": np.zeros(2)}
        pipeline = [{"op": "decode", "as": "image", "fields": ["image"]}]
        images, labels = self.layout(arrays, pipeline)
        self.assertEqual((tuple(images.shape), labels.tolist()), ((2, 3, 4, 4), [3, 4]))
        named = self.layout(arrays, pipeline, fields=True)
        self.assertEqual(set(named), set(arrays))

    def test_dtypes(self) -> None:
        """bfloat16 comes as uint16, bit for bit; unsigned ones get the next signed type, and uint64 is
        refused."""
        bits = np.array([[0x3f80, 0xc000]], np.uint16)
        value = self.layout({"array": bits}, [{"op": "decode", "as": "array"}], told={"array": "bfloat16"})
        self.assertEqual((value.dtype, value.tolist()), (torch.bfloat16, [[1.0, -2.0]]))
        value[0, 0] = 2.0
        self.assertEqual(bits[0, 0], 0x4000, "the same memory")
        for dtype, wider in ((np.uint16, torch.int32), (np.uint32, torch.int64), (np.bool_, torch.bool),
                             (np.int8, torch.int8)):
            most = np.full((1, 1), np.iinfo(dtype).max if dtype != np.bool_ else True, dtype)
            value = self.layout({"array": most}, [{"op": "decode", "as": "array"}])
            self.assertEqual((value.dtype, value.item()), (wider, most.item()))
        volume = self.layout({"array": np.zeros((1, 4, 5, 6), np.uint8)}, [{"op": "decode", "as": "array"}])
        self.assertEqual(volume.shape, (1, 4, 5, 6), "an array is no image")
        with self.assertRaisesRegex(TypeError, "'array' is uint64"):
            self.layout({"array": np.zeros((1, 2), np.uint64)}, [{"op": "decode", "as": "array"}])


if __name__ == "__main__":
    unittest.main()
