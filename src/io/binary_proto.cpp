#include "banyan/io/binary_proto.hpp"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <exception>
#include <utility>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/atomic_file.hpp"

namespace banyan::io {
namespace {

namespace pb = google::protobuf;

/// Hands protobuf's output to an AtomicFile and keeps its exception, which must not pass through protobuf.
class FileSink : public pb::io::CopyingOutputStream {
 public:
  explicit FileSink(AtomicFile& file) : file_(file) {}

  bool Write(const void* buffer, int size) override {
    try {
      file_.write(buffer, static_cast<std::size_t>(size));
      return true;
    } catch (...) {
      failure_ = std::current_exception();
      return false;
    }
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  AtomicFile& file_;
  std::exception_ptr failure_;
};

/// Keeps protobuf from logging what becomes an Error anyway.
bool parse(const std::string& bytes, pb::Message& message) {
  const pb::LogSilencer silence;
  return message.ParseFromString(bytes);
}

const char* usual_name(const std::string& type) {
  if (type == "SolverState") return "a solver state (.solverstate)";
  if (type == "BlobProto") return "an array such as an image mean (.binaryproto)";
  if (type == "NetParameter") return "a net with weights (.caffemodel)";
  return nullptr;
}

/// Whether a message that parsed is the right kind: other files often parse too, as unknown fields only.
bool plausible(const pb::Message& message) {
  if (const auto* state = dynamic_cast<const caffe::SolverState*>(&message)) return state->has_iter();
  std::vector<const pb::FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  return !fields.empty();
}

}  // namespace

void write_binary_proto(AtomicFile& file, const pb::Message& message) {
  const std::string& path = file.path();
  const std::size_t size = message.ByteSizeLong();
  if (size > kLargestMessage) {
    runtime_failure("cannot write ", quoted(path, 4096), ": the ", message.GetDescriptor()->name(), " takes ",
                    size, " bytes, and the format holds at most ", kLargestMessage);
  }
  FileSink sink(file);
  {
    pb::io::CopyingOutputStreamAdaptor stream(&sink, 1 << 20);
    const bool written = message.SerializeToZeroCopyStream(&stream) && stream.Flush();
    sink.rethrow();
    if (!written) runtime_failure("cannot encode ", quoted(path, 4096));
  }
  file.complete();
}

void write_binary_proto(const std::string& path, const pb::Message& message) {
  AtomicFile file(path);
  write_binary_proto(file, message);
  file.commit();
}

void read_binary_proto(const std::string& path, pb::Message& message) {
  const std::string bytes = read_file(path, kLargestMessage);
  const std::string type = message.GetDescriptor()->name();
  const char* usual = usual_name(type);
  const std::string expected = usual != nullptr ? usual : type;
  if (bytes.empty()) bad_input(quoted(path, 4096), " is empty: expected ", expected);
  if (bytes.rfind("\x89HDF\r\n\x1a\n", 0) == 0) {
    bad_input(quoted(path, 4096), " is an HDF5 file: expected ", expected, " in protobuf's binary form");
  }
  if (!parse(bytes, message) || !plausible(message)) {
    bad_input(quoted(path, 4096), " is damaged or another kind of file: expected ", expected, ", found ",
              bytes.size(), " bytes that are not one");
  }
}

}  // namespace banyan::io
