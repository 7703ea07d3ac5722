"""What layers in Python find in `import caffe`: pycaffe's names, as far as layers use them."""
import operator

import numpy


class Phase(int):
    """A number, as in BVLC Caffe, with the name that branches show."""

    def __str__(self):
        return ('TRAIN', 'TEST')[self]


TRAIN = Phase(0)
TEST = Phase(1)
__version__ = '1.0.0'


class Blob(object):
    """An array with its gradient, both made when they are first asked for."""

    def __init__(self, dtype, shape=()):
        self._dtype = dtype
        self._shape = tuple(shape)
        self._data = None
        self._diff = None

    def reshape(self, *shape):
        shape = tuple(operator.index(length) for length in shape)
        if any(length < 0 for length in shape):
            raise ValueError('a blob cannot have the shape %s' % (shape,))
        if shape != self._shape:
            self._shape = shape
            self._data = self._fitted(self._data)
            self._diff = self._fitted(self._diff)

    def _fitted(self, array):
        """Values stay if there are as many as before."""
        if array is None or array.size != self.count:
            return None
        return array.reshape(self._shape)

    @property
    def data(self):
        if self._data is None:
            self._data = numpy.zeros(self._shape, self._dtype)
        return self._data

    @property
    def diff(self):
        if self._diff is None:
            self._diff = numpy.zeros(self._shape, self._dtype)
        return self._diff

    @property
    def shape(self):
        return self._shape

    @property
    def count(self):
        count = 1
        for length in self._shape:
            count *= length
        return count

    def _length(self, axis):
        if len(self._shape) > 4:
            raise ValueError('num, channels, height and width are of blobs of at most 4 axes, not of %s' % (self._shape,))
        return self._shape[axis] if axis < len(self._shape) else 1

    @property
    def num(self):
        return self._length(0)

    @property
    def channels(self):
        return self._length(1)

    @property
    def height(self):
        return self._length(2)

    @property
    def width(self):
        return self._length(3)


class BlobVec(list):
    """A layer's parameters."""

    def __init__(self, dtype):
        list.__init__(self)
        self._dtype = dtype

    def add_blob(self, *shape):
        blob = Blob(self._dtype)
        blob.reshape(*shape)
        self.append(blob)


RawBlobVec = BlobVec


class Layer(object):
    """The base class of layers; pycaffe gives the constructor the layer's message."""

    type = 'Python'

    def __init__(self, *ignored, **also_ignored):
        pass


def solver_count():
    """A layer's data are dealt to all devices, so it is the only one of its kind."""
    return 1


def solver_rank():
    return 0


def multiprocess():
    return False


def set_mode_cpu():
    """The program has chosen its devices."""


def set_mode_gpu():
    """The program has chosen its devices."""


def set_device(number):
    """The program has chosen its devices."""


def log(message):
    print(message)


def layer_type_list():
    return list(layer_types)


class MissingType(type):
    """A name of pycaffe's that is not here: modules may import it and derive from it, but not use it."""

    def _refuse(cls, *ignored, **also_ignored):
        raise NotImplementedError('Banyan has no caffe.%s: of pycaffe there is what layers need' % cls.__name__)

    __call__ = _refuse

    def __getattr__(cls, name):
        if name.startswith('__'):
            raise AttributeError(name)
        cls._refuse()


def __getattr__(name):
    if name.startswith('__'):
        raise AttributeError(name)
    return MissingType(name, (object,), {})
