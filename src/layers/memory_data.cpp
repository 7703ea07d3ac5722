// MemoryData: a batch of images and their labels that the program puts in (Net::set_input,
// Session::set_input); they stay until the next ones. `dim` (BVLC's opencl branch) gives the lengths of all
// axes in place of an image's. As in Caffe (MemoryDataLayer::Reset), transform_param has no effect on them.
#include "banyan/base/contains.hpp"
#include "layers/filled_by_program.hpp"

namespace banyan {
namespace {

class MemoryDataLayer : public FilledByProgram {
 public:
  MemoryDataLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : FilledByProgram(parameter, options, {0, 0, 2, 2}, true) {}

  void read_settings() override {
    const auto& s = parameter_.memory_data_param();
    if (s.dim_size() > 0) {
      if (contains(s.dim(), 0u)) refuse("each dim of memory_data_param must be positive");
      return;
    }
    if (s.batch_size() == 0 || s.channels() == 0 || s.height() == 0 || s.width() == 0)
      refuse("memory_data_param must have positive batch_size, channels, height and width, found ",
             s.batch_size(), ", ", s.channels(), ", ", s.height(), " and ", s.width());
  }
  void setup(const Blobs&, const Blobs& outputs) override {
    const auto& s = parameter_.memory_data_param();
    if (s.dim_size() > 0)
      return set_outputs(outputs, {Shape({s.dim().begin(), s.dim().end()}), Shape{s.dim(0)}});
    set_outputs(outputs, {Shape{s.batch_size(), s.channels(), s.height(), s.width()}, Shape{s.batch_size()}});
  }
  void prepare(Pass&, const Blobs& outputs) override {
    require_values("MemoryData", outputs,
                   "to train without a program, read the data from a file (Data, HDF5Data, ImageData)");
  }
};

const RegisterLayer<MemoryDataLayer> registered_memory_data(
    "MemoryData", {"images and labels that the program puts in", "memory_data_param", {}});

}  // namespace
}  // namespace banyan
