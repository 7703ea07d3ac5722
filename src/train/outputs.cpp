#include "outputs.hpp"

namespace banyan {

void append_values(Context& context, const Tensor& values, std::vector<double>& to) {
  dispatch_storage(values.dtype(), "reading outputs", [&]<class T>() {
    std::vector<T> host(static_cast<std::size_t>(values.count()));
    copy_to_host(context, values, host.data());
    to.insert(to.end(), host.begin(), host.end());
  });
}

void append_outputs(Context& context, const Net& net, std::vector<double>& to) {
  for (const Blob* blob : net.outputs()) append_values(context, blob->data, to);
}

std::vector<OutputLayout> layout_of_outputs(const Net& net) {
  std::vector<OutputLayout> layout;
  for (const Blob* blob : net.outputs()) layout.push_back({blob->shape.count(), net.output_is_share(*blob)});
  return layout;
}

std::vector<double> combine_outputs(const std::vector<OutputLayout>& layout,
                                    const std::vector<const std::vector<double>*>& of_devices,
                                    bool first_process) {
  std::vector<double> values = *of_devices.at(0);
  std::size_t at = 0;
  for (const OutputLayout& output : layout)
    for (std::int64_t i = 0; i < output.count && at < values.size(); ++i, ++at) {
      if (output.is_share)
        for (std::size_t other = 1; other < of_devices.size(); ++other)
          values[at] += of_devices[other]->at(at);
      else if (!first_process)
        values[at] = 0;
    }
  return values;
}

}  // namespace banyan
