#include "graph_writer.hpp"

#include <bit>
#include <type_traits>

#include "banyan/base/error.hpp"
#include "banyan/io/binary_proto.hpp"

namespace banyan::onnx {
namespace {

constexpr std::int64_t kIrVersion = 8, kOperatorSet = 17;

static_assert(std::endian::native == std::endian::little);

template <class T>
void set_values(banyan_onnx::TensorProto& tensor, const std::vector<T>& values) {
  tensor.set_data_type(std::is_same_v<T, float> ? banyan_onnx::TensorProto::FLOAT
                                                : banyan_onnx::TensorProto::INT64);
  tensor.set_raw_data(values.data(), values.size() * sizeof(T));
}

void describe(banyan_onnx::ValueInfoProto& value, const std::string& name, const Shape& shape) {
  value.set_name(name);
  auto& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(banyan_onnx::TensorProto::FLOAT);
  auto& dims = *type.mutable_shape();
  for (const std::int64_t length : shape.dims()) dims.add_dim()->set_dim_value(length);
}

void set_value(banyan_onnx::AttributeProto& to, float value) {
  to.set_type(banyan_onnx::AttributeProto::FLOAT);
  to.set_f(value);
}
void set_value(banyan_onnx::AttributeProto& to, std::int64_t value) {
  to.set_type(banyan_onnx::AttributeProto::INT);
  to.set_i(value);
}
void set_value(banyan_onnx::AttributeProto& to, const std::string& value) {
  to.set_type(banyan_onnx::AttributeProto::STRING);
  to.set_s(value);
}
void set_value(banyan_onnx::AttributeProto& to, const Integers& values) {
  to.set_type(banyan_onnx::AttributeProto::INTS);
  to.mutable_ints()->Add(values.begin(), values.end());
}

}  // namespace

GraphWriter::GraphWriter(const std::string& name) : graph_(*model_.mutable_graph()) {
  model_.set_ir_version(kIrVersion);
  model_.set_producer_name("Banyan");
  model_.set_producer_version(BANYAN_VERSION);
  auto& operators = *model_.add_opset_import();
  operators.set_domain("");
  operators.set_version(kOperatorSet);
  graph_.set_name(name.empty() ? "net" : name);
}

std::string GraphWriter::unique(const std::string& name) {
  std::string free = name;
  for (int i = 2; !names_.insert(free).second; ++i) free = cat(name, "_", i);
  return free;
}

void GraphWriter::input(const std::string& name, const Shape& shape) {
  describe(*graph_.add_input(), name, shape);
}

void GraphWriter::output(const std::string& name, const Shape& shape) {
  describe(*graph_.add_output(), name, shape);
}

std::string GraphWriter::constant(const std::string& name, const Shape& shape,
                                  const std::vector<double>& values) {
  auto& tensor = *graph_.add_initializer();
  tensor.set_name(unique(name));
  tensor.mutable_dims()->Add(shape.dims().begin(), shape.dims().end());
  set_values(tensor, std::vector<float>(values.begin(), values.end()));
  return tensor.name();
}

std::string GraphWriter::integers(const std::string& name, const Integers& values) {
  auto& tensor = *graph_.add_initializer();
  tensor.set_name(unique(name));
  tensor.add_dims(static_cast<std::int64_t>(values.size()));
  set_values(tensor, values);
  return tensor.name();
}

void GraphWriter::node(const std::string& type, const Names& inputs, const Names& outputs,
                       const Attributes& attributes) {
  auto& node = *graph_.add_node();
  node.set_op_type(type);
  node.set_name(outputs.at(0));
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  for (const Attribute& attribute : attributes) {
    auto& to = *node.add_attribute();
    to.set_name(attribute.name);
    std::visit([&](const auto& value) { set_value(to, value); }, attribute.value);
  }
}

std::string GraphWriter::step(const std::string& type, const Names& inputs, const std::string& name,
                              const Attributes& attributes) {
  const std::string output = unique(name);
  node(type, inputs, {output}, attributes);
  return output;
}

Names GraphWriter::steps(const std::string& type, const Names& inputs, const std::string& name,
                         std::size_t count, const Attributes& attributes) {
  Names outputs;
  for (std::size_t i = 0; i < count; ++i) outputs.push_back(unique(cat(name, "_", i)));
  node(type, inputs, outputs, attributes);
  return outputs;
}

std::string GraphWriter::optional_input(const std::string& name, const Shape& shape) {
  const std::string given =
      constant(name, shape, std::vector<double>(static_cast<std::size_t>(shape.count()), 0));
  input(given, shape);
  return given;
}

std::string GraphWriter::serialize() const {
  const std::size_t size = model_.ByteSizeLong();
  if (size > io::kLargestMessage)
    runtime_failure("the ONNX model takes ", size, " bytes, and the format holds at most ",
                    io::kLargestMessage);
  std::string bytes;
  if (!model_.SerializeToString(&bytes)) runtime_failure("the ONNX model cannot be encoded");
  return bytes;
}

}  // namespace banyan::onnx
