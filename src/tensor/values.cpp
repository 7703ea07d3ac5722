#include "banyan/tensor/values.hpp"

#include "banyan/base/error.hpp"

namespace banyan {

Values values_of(Context& context, const Tensor& tensor) {
  Values values{tensor.shape(), {}};
  dispatch_storage(tensor.dtype(), "reading values", [&]<class T>() {
    std::vector<T> host(tensor.count());
    copy_to_host(context, tensor, host.data());
    values.values.assign(host.begin(), host.end());
  });
  return values;
}

void set_values(Context& context, const std::vector<double>& values, Tensor& tensor) {
  if (static_cast<std::int64_t>(values.size()) != tensor.count())
    runtime_failure("cannot write ", values.size(), " values to a tensor of shape ",
                    tensor.shape().to_string());
  dispatch_float(tensor.dtype(), "writing values", [&]<class T>() {
    const std::vector<T> host(values.begin(), values.end());
    copy_from_host(context, host.data(), tensor);
  });
}

}  // namespace banyan
