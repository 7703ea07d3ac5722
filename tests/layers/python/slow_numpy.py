"""As if NumPy's functions were found as NumPy 2 finds them: by an import, in which other threads get the lock."""
import sys
import time

import caffe


class SlowFinder(object):
    def find_spec(self, name, path=None, target=None):
        if name == 'numpy.core.multiarray':
            time.sleep(0.5)
        return None


sys.meta_path.insert(0, SlowFinder())
sys.modules.pop('numpy.core.multiarray', None)


class Same(caffe.Layer):
    def setup(self, bottom, top):
        pass

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        top[0].data[...] = bottom[0].data

    def backward(self, top, propagate_down, bottom):
        pass
