"""Layers for tests, written as for pycaffe."""
import importlib.util
import json
import multiprocessing
import signal
import sys
import threading

import caffe
import numpy as np


class Swish(caffe.Layer):
    """y = x * sigmoid(w x), with a parameter w for each channel."""

    def setup(self, bottom, top):
        if len(bottom) != 1 or len(top) != 1:
            raise Exception('expected one blob in and one out')
        self.slope = json.loads(self.param_str or '{}').get('slope', 1)
        self.blobs.add_blob(bottom[0].channels)
        self.blobs[0].data[...] = self.slope

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def gate(self, bottom):
        w = self.blobs[0].data.reshape(1, -1, *[1] * (bottom[0].data.ndim - 2))
        return w, 1 / (1 + np.exp(-w * bottom[0].data))

    def forward(self, bottom, top):
        top[0].data[...] = bottom[0].data * self.gate(bottom)[1]

    def backward(self, top, propagate_down, bottom):
        x, dy = bottom[0].data, top[0].diff
        w, s = self.gate(bottom)
        others = tuple(axis for axis in range(x.ndim) if axis != 1)
        self.blobs[0].diff[...] += np.sum(dy * x * x * s * (1 - s), axis=others)
        if propagate_down[0]:
            bottom[0].diff[...] = dy * (s + w * x * s * (1 - s))


class MeanSquares(caffe.Layer):
    """EuclideanLoss; as many losses for pycaffe, it does not ask for the gradient of its output."""

    def setup(self, bottom, top):
        self.difference = None

    def reshape(self, bottom, top):
        if bottom[0].count != bottom[1].count:
            raise Exception('Inputs must have the same dimension.')
        self.difference = np.zeros_like(bottom[0].data)
        top[0].reshape(1)

    def forward(self, bottom, top):
        self.difference[...] = bottom[0].data - bottom[1].data.reshape(bottom[0].data.shape)
        top[0].data[...] = np.sum(self.difference ** 2) / bottom[0].num / 2.

    def backward(self, top, propagate_down, bottom):
        for i, sign in enumerate((1, -1)):
            if propagate_down[i]:
                bottom[i].diff[...] = (sign * self.difference / bottom[i].num).reshape(bottom[i].data.shape)


class FarthestAndMean(MeanSquares):
    """The largest difference, and then the loss."""

    def reshape(self, bottom, top):
        MeanSquares.reshape(self, bottom, top[1:])
        top[0].reshape(1)

    def forward(self, bottom, top):
        MeanSquares.forward(self, bottom, top[1:])
        top[0].data[...] = abs(self.difference).max()


class Twice(caffe.Layer):
    """Works in place, where top[0] is bottom[0]."""

    name = 'of the class'

    def setup(self, bottom, top):
        pass

    def reshape(self, bottom, top):
        if len(self.blobs) == 0:
            self.blobs.add_blob(2)

    def forward(self, bottom, top):
        top[0].data[...] *= 2

    def backward(self, top, propagate_down, bottom):
        if self.name != 'of the class':
            raise ValueError(self.name)
        self.blobs[0].diff[...] = top[0].diff.sum(axis=0)
        bottom[0].diff[...] *= 2


class TimesSum(caffe.Layer):
    """The first input times the sum of the second."""

    def setup(self, bottom, top):
        pass

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        top[0].data[...] = bottom[0].data * bottom[1].data.sum()

    def backward(self, top, propagate_down, bottom):
        bottom[0].diff[...] = top[0].diff * bottom[1].data.sum()
        bottom[1].diff[...] = (top[0].diff * bottom[0].data).sum()


class ScaledMean(caffe.Layer):
    """A loss that learns: a parameter times the mean."""

    def setup(self, bottom, top):
        self.blobs.add_blob()

    def reshape(self, bottom, top):
        top[0].reshape()

    def forward(self, bottom, top):
        top[0].data[...] = self.blobs[0].data * bottom[0].data.mean()

    def backward(self, top, propagate_down, bottom):
        self.blobs[0].diff[...] = top[0].diff * bottom[0].data.mean()
        bottom[0].diff[...] = top[0].diff * self.blobs[0].data / bottom[0].count


class Running(caffe.Layer):
    """Subtracts a mean that moves halfway to each batch's; its shapes cannot be found without samples."""

    def setup(self, bottom, top):
        self.blobs.add_blob(1)
        self.blobs[0].data[...] = 4

    def reshape(self, bottom, top):
        np.empty(bottom[0].shape).reshape(bottom[0].num, -1)
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        if self.phase == caffe.TRAIN:
            self.blobs[0].data[...] = (self.blobs[0].data + bottom[0].data.mean()) / 2
        top[0].data[...] = bottom[0].data - self.blobs[0].data

    def backward(self, top, propagate_down, bottom):
        bottom[0].diff[...] = top[0].diff


class Positive(caffe.Layer):
    """The samples whose first value is positive, and their numbers."""

    def setup(self, bottom, top):
        pass

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)
        top[1].reshape(bottom[0].num)

    def forward(self, bottom, top):
        values = bottom[0].data.reshape(bottom[0].num, -1)
        self.chosen = np.nonzero(values[:, 0] > 0)[0]
        top[0].reshape(len(self.chosen), *bottom[0].shape[1:])
        top[0].data[...] = bottom[0].data[self.chosen]
        top[1].reshape(len(self.chosen))
        top[1].data[...] = self.chosen

    def backward(self, top, propagate_down, bottom):
        bottom[0].diff[...] = 0
        bottom[0].diff[self.chosen] = top[0].diff


class Numbers(caffe.Layer):
    """Data: batch b has samples with 3 values that depend on its number, and a target for each."""

    def setup(self, bottom, top):
        settings = json.loads(self.param_str)
        self.batch = settings['batch']
        self.different = settings.get('different', False)
        self.number = 0

    def reshape(self, bottom, top):
        samples = self.batch + (self.number % 2 if self.different else 0)
        first = 100 * self.number
        self.data = np.sin(np.arange(first, first + 3 * samples)).reshape(samples, 3)
        top[0].reshape(*self.data.shape)
        top[1].reshape(samples, 1)

    def forward(self, bottom, top):
        top[0].data[...] = self.data
        top[1].data[...] = self.data[:, :1] - 2 * self.data[:, 2:] + .25
        self.number += 1

    def backward(self, top, propagate_down, bottom):
        pass


class Broken(caffe.Layer):
    """Raises where param_str says."""

    def raise_in(self, method):
        if self.param_str == method:
            self.help_me(method)

    def help_me(self, method):
        raise ValueError('this is wrong in ' + method)

    def setup(self, bottom, top):
        self.raise_in('setup')

    def reshape(self, bottom, top):
        self.raise_in('reshape')
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        self.raise_in('forward')
        if self.param_str == 'grow':
            top[0].reshape(7, 2)
        if self.param_str == 'net':
            caffe.Net('x.prototxt', caffe.TEST)

    def backward(self, top, propagate_down, bottom):
        self.raise_in('backward')


class WithoutForward(caffe.Layer):
    def setup(self, bottom, top):
        pass

    def reshape(self, bottom, top):
        pass


class NoLayer(object):
    pass


class Ending(Numbers):
    """Data that end with batch 4."""

    def forward(self, bottom, top):
        if self.number == 4:
            raise ValueError('there is no batch 4')
        Numbers.forward(self, bottom, top)


class Unspeakable(Exception):
    def __str__(self):
        raise KeyError('no words')


PATH = list(sys.path)


class Odd(caffe.Layer):
    """Does what nobody expects, as param_str says."""

    def setup(self, bottom, top):
        sys.path[:] = PATH
        if self.param_str == 'silent':
            raise Unspeakable()
        if self.param_str == 'surrogate':
            raise ValueError('file \udcff is\nnot here')
        if self.param_str == 'exit':
            exit()
        if self.param_str == 'path':
            sys.path[:] = []
            sys.modules.pop('traceback', None)
            raise ValueError('nothing can be imported')

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        top[0].data[...] = bottom[0].data
        if self.param_str == 'pop':
            top.pop()
        if self.param_str == 'replace':
            top[0] = bottom[0]

    def backward(self, top, propagate_down, bottom):
        bottom[0].diff[...] = top[0].diff


class Files(caffe.Layer):
    """Data as layers read it: the PNG that param_str names has the pixels (row, column): 10 row + column, 1, 2 in RGB."""

    def setup(self, bottom, top):
        import caffe.io
        from caffe.proto import caffe_pb2
        from google.protobuf import text_format

        found = []
        threads = [threading.Thread(target=lambda: found.append(caffe_pb2.Datum)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8 and len(set(found)) == 1, found
        assert 'Datum' in caffe_pb2.__all__ and caffe_pb2.Phase.Value('TEST') == caffe_pb2.TEST
        assert caffe.io.caffe_pb2 is caffe_pb2 and importlib.util.find_spec('caffe') is not None
        import caffe.net_spec
        image = caffe.io.load_image(self.param_str)
        np.testing.assert_allclose(image[1, 2] * 255, [12, 1, 2], rtol=1e-5)
        gray = caffe.io.load_image(self.param_str, color=False)
        np.testing.assert_allclose(gray[1, 2] * 255, [0.2125 * 12 + 0.7154 + 0.0721 * 2], rtol=1e-5)
        with open(self.param_str, 'rb') as file:
            datum = caffe_pb2.Datum(data=file.read(), encoded=True, label=5)
        pixels = caffe.io.datum_to_array(caffe_pb2.Datum.FromString(datum.SerializeToString()))
        assert pixels.shape == (3,) + image.shape[:2] and list(pixels[:, 1, 2]) == [2, 1, 12], pixels
        assert (caffe.io.datum_to_array(caffe.io.array_to_datum(pixels, 5)) == pixels).all()
        mean = caffe.io.array_to_blobproto(pixels.mean(1).mean(1))
        transformer = caffe.io.Transformer({'data': (1, 3) + image.shape[:2]})
        transformer.set_transpose('data', (2, 0, 1))
        transformer.set_channel_swap('data', (2, 1, 0))
        transformer.set_raw_scale('data', 255)
        for wrong in (lambda: transformer.set_mean('data', np.zeros((1,) + pixels.shape)),
                      lambda: transformer.set_channel_swap('data', (1, 0)),
                      lambda: transformer.set_transpose('data', (1, 0))):
            try:
                wrong()
            except Exception as error:
                assert 'input' in str(error), error
            else:
                raise AssertionError('does not fit')
        transformer.set_mean('data', caffe.io.blobproto_to_array(mean))
        self.made = transformer.preprocess('data', image)
        np.testing.assert_allclose(self.made.mean(1).mean(1), 0, atol=1e-4)
        np.testing.assert_allclose(transformer.deprocess('data', self.made), image, atol=1e-6)
        crops = caffe.io.oversample([image], (2, 3))
        assert crops.shape == (10, 2, 3, 3) and (crops[3] == image[1:, 1:]).all() and (crops[5] == crops[0, :, ::-1]).all()
        ramp = np.arange(4, dtype=np.float32).reshape(1, 4, 1)
        assert caffe.io.resize_image(ramp, (1, 2)).ravel().tolist() == [0.5, 2.5]
        assert caffe.io.resize_image(ramp, (2, 8), 0)[1].ravel().tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
        net = text_format.Parse("layer { name: 'a' type: 'Data' include { phase: TEST } }", caffe_pb2.NetParameter())
        assert net.layer[0].include[0].phase == caffe_pb2.TEST and caffe_pb2.TEST == caffe.TEST
        try:
            caffe.io.load_image(__file__)
            raise AssertionError('this is no image')
        except ValueError:
            pass

    def reshape(self, bottom, top):
        top[0].reshape(1, *self.made.shape)

    def forward(self, bottom, top):
        top[0].data[0] = self.made

    def backward(self, top, propagate_down, bottom):
        pass


class WithProcess(caffe.Layer):
    """Adds what a process of its own sends, and ends that as multiprocessing does at the end of a program."""

    def setup(self, bottom, top):
        processes = multiprocessing.get_context('fork')
        self.numbers = processes.Queue(2)
        self.process = processes.Process(target=self.count, daemon=True)
        self.process.start()

    def count(self):
        number = 0
        while True:
            number += 1
            self.numbers.put(number)

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        top[0].data[...] = bottom[0].data + self.numbers.get(timeout=60)
        if self.param_str == 'end':
            self.process.terminate()
            self.process.join(60)
            if self.process.exitcode != -signal.SIGTERM:
                self.process.kill()
                raise RuntimeError('the process goes on')
