"""What layers in Python find in caffe.proto.caffe_pb2: the messages of Banyan's file format, which has BVLC Caffe's."""
import threading

_lock = threading.Lock()


def _make_names():
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        from google.protobuf.internal import enum_type_wrapper
    except ImportError as error:
        raise ImportError('caffe.proto needs the Python package protobuf (python3-protobuf): %s' % error)
    described = descriptor_pb2.FileDescriptorProto.FromString(described_messages)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(described_messages)
    found = pool.FindFileByName(described.name)
    if hasattr(message_factory, 'GetMessageClass'):
        make_class = message_factory.GetMessageClass
    else:  # before protobuf 4.22
        make_class = message_factory.MessageFactory(pool).GetPrototype
    names = {name: make_class(message) for name, message in found.message_types_by_name.items()}
    for name, enum in found.enum_types_by_name.items():
        names[name] = enum_type_wrapper.EnumTypeWrapper(enum)
        names.update((value.name, value.number) for value in enum.values)
    names['__all__'] = sorted(names)
    names['DESCRIPTOR'] = found
    return names


def __getattr__(name):
    if name == '__all__' or not name.startswith('__'):
        with _lock:  # one class for each message, whoever asks first
            if '_made' not in globals():
                globals().update(_make_names(), _made=True)
        if name in globals():
            return globals()[name]
    raise AttributeError('caffe.proto.caffe_pb2 has no %s' % name)
