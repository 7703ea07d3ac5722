// FLOWriter (FlowNet2): writes each sample of its input, N x 2 x H x W, as a file of optical flow (.flo): the
// four bytes PIEH, width and height as 32-bit integers, and for each pixel, row by row, both channels as
// 32-bit floats, all little-endian. The file is `file`, or, in `folder`, `prefix`, seven digits that count
// passes from 0, of a batch of several samples their numbers as (000), `suffix` and .flo. A folder that is
// missing is made.
#include <bit>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "banyan/io/atomic_file.hpp"
#include "banyan/layers/layer.hpp"

namespace banyan {
namespace {

static_assert(std::endian::native == std::endian::little);

void append_bytes(std::string& bytes, const auto& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

class FloWriterLayer : public Layer {
 public:
  FloWriterLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {1, 1, 0, 0},
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .repeatable = false,
               .differentiable_inputs = 0}) {}

  void read_settings() override {
    const caffe::WriterParameter& s = parameter_.writer_param();
    if (!s.file().empty() && !(s.folder().empty() && s.prefix().empty() && s.suffix().empty()))
      refuse("give either writer_param.file or folder, prefix and suffix");
    if (options().devices > 1)
      refuse("writes files of one count and runs on one device only; this run has ", options().devices);
  }

  void reshape(const Blobs& inputs, const Blobs&) override {
    const Shape& shape = image_shape(*inputs[0]);
    if (shape[1] != 2) refuse("flow has 2 channels; ", quoted(inputs[0]->name), " is ", shape.to_string());
    if (!parameter_.writer_param().file().empty() && shape[0] > 1)
      refuse("writer_param.file is for one sample, and the batch has ", shape[0], "; give folder and prefix");
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs&) override {
    const Shape& shape = inputs[0]->shape;
    dispatch_float(inputs[0]->data.dtype(), "FLOWriter", [&]<class T>() {
      std::vector<T> values(static_cast<std::size_t>(shape.count()));
      copy_to_host(*pass.context, inputs[0]->data, values.data());
      if (const std::string& folder = parameter_.writer_param().folder(); !folder.empty()) {
        std::error_code error;  // a file that cannot be written then says so
        std::filesystem::create_directories(folder, error);
      }
      const std::int64_t pixels = shape.count(2);
      for (std::int64_t sample = 0; sample < shape[0]; ++sample) {
        std::string bytes = "PIEH";
        append_bytes(bytes, static_cast<std::int32_t>(shape[3]));
        append_bytes(bytes, static_cast<std::int32_t>(shape[2]));
        const T* flow = values.data() + 2 * sample * pixels;
        for (std::int64_t at = 0; at < pixels; ++at)
          for (const std::int64_t channel : {0, 1})
            append_bytes(bytes, static_cast<float>(flow[channel * pixels + at]));
        io::write_file(path_of(sample, shape[0]), bytes);
      }
    });
    ++passes_;
  }
  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  std::string path_of(std::int64_t sample, std::int64_t samples) const {
    const caffe::WriterParameter& s = parameter_.writer_param();
    if (!s.file().empty()) return s.file();
    char number[32], one_of[32] = "";
    std::snprintf(number, sizeof number, "%07lld", static_cast<long long>(passes_));
    if (samples > 1) std::snprintf(one_of, sizeof one_of, "(%03lld)", static_cast<long long>(sample));
    const std::string folder = s.folder().empty() ? "" : s.folder() + "/";
    return folder + s.prefix() + number + one_of + s.suffix() + ".flo";
  }

  std::int64_t passes_ = 0;
};

const RegisterLayer<FloWriterLayer> registered_flo_writer(
    "FLOWriter", {"writes optical flow to .flo files (FlowNet2)", "writer_param", {}});

}  // namespace
}  // namespace banyan
