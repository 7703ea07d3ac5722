import caffe


class Old(caffe.Layer):
    def setup(self, bottom, top):
        print "set up"
