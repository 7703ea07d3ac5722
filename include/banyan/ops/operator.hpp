// Operator: a function with one implementation per device kind. Declared once in a header of this room; each
// back end (src/ops/cpu, src/ops/cuda) defines it from a static `Define` object in its own file.
#pragma once

#include <array>

#include "banyan/device/context.hpp"
#include "banyan/tensor/tensor.hpp"

namespace banyan::ops {

template <class Signature>
class Operator;

template <class... Arguments>
class Operator<void(Arguments...)> {
 public:
  using Function = void (*)(Context&, Arguments...);
  constexpr explicit Operator(const char* name) : name_(name) {}
  void operator()(Context& context, Arguments... arguments) const {
    const Function function = functions_[static_cast<std::size_t>(context.device().kind())];
    if (function == nullptr)
      runtime_failure("operator ", name_, " has no implementation for ", context.device().name());
    function(context, static_cast<Arguments>(arguments)...);
  }
  const char* name() const { return name_; }
  bool has(DeviceKind kind) const { return functions_[static_cast<std::size_t>(kind)] != nullptr; }
  void define(DeviceKind kind, Function function) { functions_[static_cast<std::size_t>(kind)] = function; }

 private:
  const char* name_;
  std::array<Function, 2> functions_{};
};

/// Static registration: `const Define define_relu(relu_forward, DeviceKind::cpu, &relu_forward_on_cpu);`
struct Define {
  template <class Signature>
  Define(Operator<Signature>& op, DeviceKind kind, typename Operator<Signature>::Function function) {
    op.define(kind, function);
  }
};

}  // namespace banyan::ops
