// Builds an ONNX graph: constants, nodes, names.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "banyan/tensor/shape.hpp"
#include "proto/onnx_subset.pb.h"

namespace banyan::onnx {

using Names = std::vector<std::string>;
using Integers = std::vector<std::int64_t>;

struct Attribute {
  std::string name;
  std::variant<float, std::int64_t, std::string, Integers> value;
};
using Attributes = std::vector<Attribute>;

class GraphWriter {
 public:
  explicit GraphWriter(const std::string& name);

  void input(const std::string& name, const Shape& shape);
  void output(const std::string& name, const Shape& shape);
  /// Adds f32 values and returns their name: unique(`name`).
  std::string constant(const std::string& name, const Shape& shape, const std::vector<double>& values);
  /// One value that broadcasts against anything.
  std::string scalar(const std::string& name, double value) { return constant(name, {}, {value}); }
  std::string integers(const std::string& name, const Integers& values);
  void node(const std::string& type, const Names& inputs, const Names& outputs,
            const Attributes& attributes = {});
  /// The same with one output, whose name is unique(`name`).
  std::string step(const std::string& type, const Names& inputs, const std::string& name,
                   const Attributes& attributes = {});
  /// The same with `count` outputs.
  Names steps(const std::string& type, const Names& inputs, const std::string& name, std::size_t count,
              const Attributes& attributes = {});
  /// An input that need not be given: a constant of zeros otherwise. Returns its name.
  std::string optional_input(const std::string& name, const Shape& shape);
  /// `name`, with a number if it is taken.
  std::string unique(const std::string& name);
  /// Keeps `name` from being given to anything else.
  void reserve(const std::string& name) { names_.insert(name); }

  /// The model in protobuf's binary form. Throws runtime_failure if it is longer than that form allows.
  std::string serialize() const;

 private:
  banyan_onnx::ModelProto model_;
  banyan_onnx::GraphProto& graph_;
  std::set<std::string> names_;
};

}  // namespace banyan::onnx
