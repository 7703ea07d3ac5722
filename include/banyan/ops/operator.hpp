// Operator: a function with one implementation per device kind. Declared once in a header of this room; each
// back end (src/ops/cpu, src/ops/cuda) defines it from a static `Define` object in its own file.
#pragma once

#include <array>

#include "banyan/device/context.hpp"
#include "banyan/tensor/tensor.hpp"

namespace banyan::ops {

/// An operator without its signature. All that have an implementation are in one list, whichever library they
/// are from.
class AnyOperator {
 public:
  AnyOperator(const AnyOperator&) = delete;
  AnyOperator& operator=(const AnyOperator&) = delete;
  const char* name() const { return name_; }
  bool has(DeviceKind kind) const { return has_[static_cast<std::size_t>(kind)]; }
  /// The list, in no particular order; a null pointer ends it.
  static const AnyOperator* first() { return first_; }
  const AnyOperator* next() const { return next_; }

 protected:
  constexpr explicit AnyOperator(const char* name) : name_(name) {}
  ~AnyOperator() = default;
  void note_definition(DeviceKind kind) {
    if (has_ == std::array<bool, 2>{}) {
      next_ = first_;
      first_ = this;
    }
    has_[static_cast<std::size_t>(kind)] = true;
  }

 private:
  const char* name_;
  std::array<bool, 2> has_{};
  const AnyOperator* next_ = nullptr;
  inline static const AnyOperator* first_ = nullptr;
};

template <class Signature>
class Operator;

template <class... Arguments>
class Operator<void(Arguments...)> : public AnyOperator {
 public:
  using Function = void (*)(Context&, Arguments...);
  constexpr explicit Operator(const char* name) : AnyOperator(name) {}
  void operator()(Context& context, Arguments... arguments) const {
    const Function function = functions_[static_cast<std::size_t>(context.device().kind())];
    if (function == nullptr)
      runtime_failure("operator ", name(), " has no implementation for ", context.device().name());
    function(context, static_cast<Arguments>(arguments)...);
  }
  void define(DeviceKind kind, Function function) {
    functions_[static_cast<std::size_t>(kind)] = function;
    note_definition(kind);
  }

 private:
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
