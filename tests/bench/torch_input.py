#!/usr/bin/env python3
"""PyTorch's side of input_pipeline.py.

usage: torch_input.py make FOLDER COUNT SIZE                     JPEG files of SIZE x SIZE pixels and FOLDER/list.txt
       torch_input.py rate ROOT LIST READER BATCH CROP PAD WORKERS SECONDS     READER: pil or io

`rate` prints samples per second of a DataLoader over the list, shuffled: decode, pad and crop at random, mirror, scale and
subtract means, collate to a batch. READER pil is torchvision's default (PIL, transforms on the image); io decodes by
torchvision.io.decode_jpeg and transforms tensors (v2). WORKERS 0: in this process, with one thread.
"""

import math
import pathlib
import random
import sys
import time

import torch


def make(folder, count, size):
    """Smooth waves with some noise, which compress about as well as photographs."""
    import numpy
    from PIL import Image

    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    draw = numpy.random.default_rng(1)
    x = numpy.arange(size) * 2 * math.pi / size
    with open(folder / "list.txt", "w") as names:
        for i in range(count):
            waves = [
                numpy.sin(draw.integers(1, 5) * x[:, None] + draw.uniform(0, 6) + draw.integers(1, 5) * x[None, :])
                for _ in range(3)
            ]
            pixels = 128 + 70 * numpy.stack(waves, -1) + draw.normal(0, 12, (size, size, 3))
            Image.fromarray(pixels.clip(0, 255).astype("uint8")).save(folder / f"{i}.jpg", quality=90)
            names.write(f"{i}.jpg {i % 10}\n")


class Images(torch.utils.data.Dataset):
    def __init__(self, root, path, read, transform):
        rows = [line.rsplit(None, 1) for line in open(path) if line.strip()]
        self.rows = [(root + name, int(label)) for name, label in rows]
        self.read, self.transform = read, transform

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        path, label = self.rows[index]
        return self.transform(self.read(path)), label


def pil_side(crop, pad, mean, deviation):
    from torchvision import transforms as t
    from torchvision.datasets.folder import pil_loader

    return pil_loader, t.Compose(
        [t.RandomCrop(crop, padding=pad or None), t.RandomHorizontalFlip(), t.ToTensor(), t.Normalize(mean, deviation)]
    )


def io_side(crop, pad, mean, deviation):
    from torchvision import io
    from torchvision.transforms import v2 as t

    transform = t.Compose(
        [
            t.RandomCrop(crop, padding=pad or None),
            t.RandomHorizontalFlip(),
            t.ToDtype(torch.float32, scale=True),
            t.Normalize(mean, deviation),
        ]
    )
    return (lambda path: io.decode_jpeg(io.read_file(path), io.ImageReadMode.RGB)), transform


def rate(root, path, reader, batch, crop, pad, workers, seconds):
    random.seed(1), torch.manual_seed(1)
    torch.set_num_threads(1)
    read, transform = {"pil": pil_side, "io": io_side}[reader](crop, pad, [0.49, 0.48, 0.45], [0.25, 0.25, 0.25])
    loader = torch.utils.data.DataLoader(
        Images(root, path, read, transform),
        batch,
        shuffle=True,
        num_workers=workers,
        drop_last=True,
        persistent_workers=workers > 0,
    )
    warm, samples, start = 3 + 4 * workers, 0, None
    while True:
        for images, _ in loader:
            now = time.perf_counter()
            if warm:  # what the workers prepared in advance is not counted
                warm, start = warm - 1, now
                continue
            samples += len(images)
            if now - start >= seconds:
                return samples / (now - start)


if __name__ == "__main__":
    words = sys.argv[1:]
    if len(words) == 4 and words[0] == "make":
        make(words[1], int(words[2]), int(words[3]))
    elif len(words) == 9 and words[0] == "rate":
        print(rate(words[1], words[2], words[3], *map(int, words[4:8]), float(words[8])))
    else:
        sys.exit(__doc__)
