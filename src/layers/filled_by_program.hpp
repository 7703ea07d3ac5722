// What layers share whose blobs a program fills (Net::set_input, Session::set_input).
#pragma once

#include <string>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/layers/layer.hpp"

namespace banyan {

/// Its blobs keep what the program has put in until it puts in other values.
class FilledByProgram : public Layer {
 public:
  void reshape(const Blobs&, const Blobs&) final {}
  void filled(std::size_t output) final { filled_.at(output) = true; }
  void forward(Pass&, const Blobs&, const Blobs&) final {}
  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) final {}

 protected:
  FilledByProgram(const caffe::LayerParameter& parameter, const LayerOptions& options, const Arity& outputs,
                  bool needs_values)
      : Layer(parameter, options,
              {.arity = outputs,
               .source = true,
               .filled_by_user = true,
               .needs_values = needs_values,
               .backward_reads_outputs = false,
               .repeatable = false}) {}

  /// Refuses a pass before every output was filled. `type`: in the file; `otherwise`: what there is to say of
  /// a run without a program.
  void require_values(const char* type, const Blobs& outputs, const char* otherwise) const {
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (!filled_[i])
        bad_input("layer ", quoted(parameter_.name()), " (", type, "): nothing was put into its output ",
                  quoted(outputs[i]->name), ": a program does that by Session::set_input or Net::set_input; ",
                  otherwise);
  }
  /// One shape per output, or none: the program reshapes them.
  void set_outputs(const Blobs& outputs, const std::vector<Shape>& shapes) {
    for (std::size_t i = 0; i < shapes.size(); ++i) set_output(*outputs[i], shapes[i]);
    filled_.assign(outputs.size(), false);
  }

 private:
  std::vector<bool> filled_;
};

}  // namespace banyan
