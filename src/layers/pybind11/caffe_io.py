"""What layers in Python find in caffe.io: images, what is done to them before a net sees them, and arrays as caffe_pb2."""
import numpy as np


def load_image(filename, color=True):
    """An image H x W x 3 (RGB), or H x W x 1, of values from 0 to 1."""
    try:
        with open(filename, 'rb') as file:
            image = decode_image(file.read()).astype(np.float32) / 255
    except ValueError as error:
        raise ValueError('%s: %s' % (filename, error))
    if color:
        return image
    return image.dot(np.array([0.2125, 0.7154, 0.0721], np.float32))[:, :, np.newaxis]


def _places(length, new_length):
    """Of the new pixels' centres: the pixel before, the one after, and how far it is to that one."""
    at = (np.arange(new_length) + 0.5) * length / new_length - 0.5
    at = at.clip(0, length - 1)
    before = np.floor(at).astype(int)
    return before, np.minimum(before + 1, length - 1), (at - before).astype(np.float32)


def resize_image(im, new_dims, interp_order=1):
    """An image H x W x K with the height and width new_dims: of the nearest pixels (order 0) or bilinear (1)."""
    if interp_order not in (0, 1):
        raise NotImplementedError('caffe.io.resize_image: interp_order 0 and 1 are supported, not %s' % interp_order)
    im = np.asarray(im, np.float32)
    if im.ndim != 3:
        raise ValueError('an image is height x width x channels, not of the shape %s' % (im.shape,))
    (top, bottom, down), (left, right, across) = (_places(im.shape[axis], new_dims[axis]) for axis in (0, 1))
    if interp_order == 0:
        return im[np.where(down < 0.5, top, bottom)][:, np.where(across < 0.5, left, right)]
    down, across = down[:, np.newaxis, np.newaxis], across[:, np.newaxis]
    above = im[top][:, left] * (1 - across) + im[top][:, right] * across
    below = im[bottom][:, left] * (1 - across) + im[bottom][:, right] * across
    return above * (1 - down) + below * down


def oversample(images, crop_dims):
    """Of each image H x W x K its corners and its centre, then their mirror images: 10 crops."""
    height, width = (int(length) for length in crop_dims)
    crops = []
    for image in images:
        rows, columns = image.shape[0] - height, image.shape[1] - width
        starts = [(y, x) for y in (0, rows) for x in (0, columns)] + [(rows // 2, columns // 2)]
        cut = [image[y:y + height, x:x + width] for y, x in starts]
        crops += cut + [part[:, ::-1] for part in cut]
    return np.array(crops, np.float32)


class Transformer(object):
    """Makes inputs of a net from images H x W x K. `inputs`: the shapes of its blobs, by name."""

    def __init__(self, inputs):
        self.inputs = inputs
        self.transpose = {}
        self.channel_swap = {}
        self.raw_scale = {}
        self.mean = {}
        self.input_scale = {}

    def _check(self, in_):
        if in_ not in self.inputs:
            raise Exception('%s is not one of the inputs %s' % (in_, list(self.inputs)))

    def set_transpose(self, in_, order):
        self._check(in_)
        if len(order) != len(self.inputs[in_]) - 1:
            raise Exception('the order %s does not have the axes of the input %s' % (order, self.inputs[in_]))
        self.transpose[in_] = order

    def set_channel_swap(self, in_, order):
        self._check(in_)
        if len(order) != self.inputs[in_][1]:
            raise Exception('the order %s does not have the channels of the input %s' % (order, self.inputs[in_]))
        self.channel_swap[in_] = order

    def set_raw_scale(self, in_, scale):
        self._check(in_)
        self.raw_scale[in_] = scale

    def set_input_scale(self, in_, scale):
        self._check(in_)
        self.input_scale[in_] = scale

    def set_mean(self, in_, mean):
        """A value for each channel, or for each value of the input."""
        self._check(in_)
        shape = tuple(self.inputs[in_][1:])
        mean = np.asarray(mean, np.float32)
        if mean.ndim == 1:
            mean = mean[:, np.newaxis, np.newaxis]
        elif mean.ndim == 2:
            mean = mean[np.newaxis]
        if mean.shape not in ((shape[0], 1, 1), shape):
            raise ValueError('the mean has the shape %s, the input %s' % (mean.shape, shape))
        self.mean[in_] = mean

    def preprocess(self, in_, data):
        self._check(in_)
        data = np.asarray(data, np.float32)
        dims = tuple(self.inputs[in_][2:])
        if data.shape[:2] != dims:
            data = resize_image(data, dims)
        if in_ in self.transpose:
            data = data.transpose(self.transpose[in_])
        if in_ in self.channel_swap:
            data = data[list(self.channel_swap[in_])]
        if in_ in self.raw_scale:
            data = data * self.raw_scale[in_]
        if in_ in self.mean:
            data = data - self.mean[in_]
        if in_ in self.input_scale:
            data = data * self.input_scale[in_]
        return data.astype(np.float32)

    def deprocess(self, in_, data):
        self._check(in_)
        data = np.array(data, np.float32).squeeze()
        if in_ in self.input_scale:
            data = data / self.input_scale[in_]
        if in_ in self.mean:
            data = data + self.mean[in_]
        if in_ in self.raw_scale:
            data = data / self.raw_scale[in_]
        if in_ in self.channel_swap:
            data = data[np.argsort(self.channel_swap[in_])]
        if in_ in self.transpose:
            data = data.transpose(np.argsort(self.transpose[in_]))
        return data.astype(np.float32)


def blobproto_to_array(blob, return_diff=False):
    which = 'diff' if return_diff else 'data'
    values = np.array(getattr(blob, which))
    if values.size == 0:  # of f64, where the messages have it
        values = np.array(getattr(blob, 'double_' + which, ()))
    if values.size == 0 and getattr(blob, 'raw_' + which, b''):
        raise NotImplementedError('blobs with raw_%s (NVIDIA) are not read here' % which)
    if any(blob.HasField(axis) for axis in ('num', 'channels', 'height', 'width')):
        return values.reshape(blob.num, blob.channels, blob.height, blob.width)
    return values.reshape(tuple(blob.shape.dim))


def array_to_blobproto(arr, diff=None):
    blob = caffe_pb2.BlobProto()
    blob.shape.dim.extend(arr.shape)
    blob.data.extend(arr.astype(float).flat)
    if diff is not None:
        blob.diff.extend(diff.astype(float).flat)
    return blob


def arraylist_to_blobprotovector_str(arraylist):
    vector = caffe_pb2.BlobProtoVector()
    vector.blobs.extend([array_to_blobproto(array) for array in arraylist])
    return vector.SerializeToString()


arraylist_to_blobprotovecor_str = arraylist_to_blobprotovector_str  # as some versions spell it


def blobprotovector_str_to_arraylist(str):
    return [blobproto_to_array(blob) for blob in caffe_pb2.BlobProtoVector.FromString(str).blobs]


def array_to_datum(arr, label=None):
    if arr.ndim != 3:
        raise ValueError('an array of a Datum is channels x height x width, not of the shape %s' % (arr.shape,))
    datum = caffe_pb2.Datum()
    datum.channels, datum.height, datum.width = arr.shape
    if arr.dtype == np.uint8:
        datum.data = arr.tobytes()
    else:
        datum.float_data.extend(arr.astype(float).flat)
    if label is not None:
        datum.label = label
    return datum


def datum_to_array(datum):
    if datum.encoded:
        planes = decode_image(datum.data)[:, :, ::-1].transpose(2, 0, 1)
        return planes[:1 if datum.channels == 1 else 3].copy()
    shape = (datum.channels, datum.height, datum.width)
    if len(datum.data) > 0:
        return np.frombuffer(datum.data, np.uint8).reshape(shape).copy()
    return np.array(datum.float_data).astype(float).reshape(shape)
