// HDF5Output: appends its inputs, row by row, to the datasets `data` and `label` of a file. Every pass is on
// disk when it ends. The file is made by the first pass and replaces an existing one.
#include <memory>
#include <utility>

#include "banyan/layers/layer.hpp"
#include "io/hdf5_file.hpp"

namespace banyan {
namespace {

class Hdf5OutputLayer : public Layer {
 public:
  Hdf5OutputLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 0, 0},
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .repeatable = false,
               .differentiable_inputs = 0}) {}

  void read_settings() override {
    if (parameter_.hdf5_output_param().file_name().empty()) refuse("hdf5_output_param.file_name is missing");
    io::require_hdf5(cat("layer ", quoted(name()), " (HDF5Output)"));
    if (options().devices > 1)
      refuse("writes one file and runs on one device only; this run has ", options().devices);
  }

  void reshape(const Blobs& inputs, const Blobs&) override {
    for (const Blob* input : inputs)
      if (input->shape.axes() == 0) refuse("expected inputs with a row per sample, found one without axes");
    if (inputs[0]->shape[0] != inputs[1]->shape[0])
      refuse("expected as many rows of labels as of data, found ", inputs[1]->shape[0], " and ",
             inputs[0]->shape[0]);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs&) override {
    if (!file_) file_ = io::Hdf5File::create(parameter_.hdf5_output_param().file_name());
    append(*pass.context, "data", inputs[0]->data);
    append(*pass.context, "label", inputs[1]->data);
    file_->flush();
  }
  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  void append(Context& context, const std::string& dataset, const Tensor& rows) {
    dispatch_float(rows.dtype(), "HDF5Output", [&]<class T>() {
      std::vector<T> values(static_cast<std::size_t>(rows.count()));
      copy_to_host(context, rows, values.data());
      const std::vector<std::int64_t>& dims = rows.shape().dims();
      file_->append_rows(dataset, {dims.begin() + 1, dims.end()}, static_cast<std::uint64_t>(dims[0]),
                         values.data());
    });
  }

  std::unique_ptr<io::Hdf5File> file_;
};

const RegisterLayer<Hdf5OutputLayer> registered_hdf5_output(
    "HDF5Output", {"appends data and labels to an HDF5 file", "hdf5_output_param", {}});

}  // namespace
}  // namespace banyan
