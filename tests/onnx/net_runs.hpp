// Nets with made-up values whose results other programs compute too, in Python (python_script.hpp).
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "banyan/io/arrays.hpp"
#include "banyan/train/model.hpp"
#include "data/data_test_tools.hpp"
#include "python_script.hpp"

namespace banyan {

enum class Inputs { signed_values, positive, whole, pixels };

struct Case {
  std::string text;  ///< of the layers; those without a `top` get "y", without a `bottom` all inputs
  std::vector<Shape> shapes = {Shape{2, 4, 5, 6}};
  Inputs inputs = Inputs::signed_values;
  Inputs parameters = Inputs::positive;  ///< variances and factors must be
};

inline const Shape kPlanes{2, 4, 5, 6};

/// One layer of `type`; outputs y, z.
inline Case one(const std::string& type, const std::string& settings = "",
                std::vector<Shape> shapes = {kPlanes}, Inputs inputs = Inputs::signed_values,
                int outputs = 1) {
  std::string text = "layer { name: 'it' type: '" + type + "' top: 'y' ";
  for (int i = 1; i < outputs; ++i) text += cat("top: 'z", i, "' ");
  for (std::size_t i = 0; i < shapes.size(); ++i) text += cat("bottom: 'x", i, "' ");
  return {text + settings + " }", shapes, inputs};
}

/// Values without a pattern, in [-1, 1).
inline double value_of(std::size_t i, std::size_t seed) {
  std::uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u ^ (seed + 1) * 0xbf58476d1ce4e5b9u;
  x ^= x >> 31;
  x *= 0x94d049bb133111ebu;
  return static_cast<double>(x >> 40) / static_cast<double>(1 << 23) - 1;
}

inline std::vector<double> made_up(std::int64_t count, std::size_t seed, Inputs kind) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = value_of(static_cast<std::size_t>(i), seed);
    values.push_back(kind == Inputs::signed_values ? value
                     : kind == Inputs::positive    ? 1.5 + value
                     : kind == Inputs::pixels      ? 128 * value
                                                   : std::floor(2 + 2 * value));
  }
  return values;
}

/// Values as after some training: weights whose products have `gain` times the variance of what they are made
/// from, everything else about 1. With 2, and half of the values below a ReLU, the size of values stays;
/// where branches are added up it would grow with every block.
inline void fill_as_trained(Model& model, double gain) {
  std::size_t seed = 100;
  for (const auto& layer : model.net().layers())
    for (Parameter& parameter : layer->parameters()) {
      const bool weight = parameter.shape.axes() > 1 && parameter.shape[0] > 1;
      std::vector<double> values = made_up(parameter.shape.count(), ++seed, Inputs::signed_values);
      const double size = weight ? std::sqrt(3 * gain / static_cast<double>(parameter.shape.count(1))) : 0.25;
      for (double& value : values) value = (weight ? 0 : 1) + size * value;
      set_values(model.context(), values, parameter.value);
    }
  model.net().parameters_replaced();
}

class NetRuns : public data::FolderTest {
 protected:
  static std::unique_ptr<Model> model_of_file(const std::string& file) {
    ModelOptions options;
    options.model = file;
    options.fold = false;
    return std::make_unique<Model>(options);
  }

  /// Writes the net to net.prototxt.
  std::unique_ptr<Model> model_of(const Case& tested) {
    std::string text = "name: 'net' ";
    for (std::size_t i = 0; i < tested.shapes.size(); ++i) {
      text += cat("layer { name: 'in", i, "' type: 'Input' top: 'x", i, "' input_param { shape { ");
      for (const std::int64_t length : tested.shapes[i].dims()) text += cat("dim: ", length, " ");
      text += "} } }\n";
    }
    std::ofstream(path("net.prototxt")) << text << tested.text;
    auto model = model_of_file(path("net.prototxt"));
    std::size_t seed = 100;
    for (const auto& layer : model->net().layers())
      for (Parameter& parameter : layer->parameters())
        set_values(model->context(), made_up(parameter.shape.count(), ++seed, tested.parameters),
                   parameter.value);
    model->net().parameters_replaced();
    return model;
  }

  /// Calls visit(blob) for what `Input` layers make.
  template <class Visit>
  static void for_each_input(Model& model, Visit&& visit) {
    for (const auto& layer : model.net().definition().layer())
      if (layer.type() == "Input")
        for (const std::string& top : layer.top()) visit(*model.net().find_blob(top));
  }
  static void fill_inputs(Model& model, Inputs kind, std::size_t seed = 0) {
    for_each_input(model, [&](Blob& input) {
      set_values(model.context(), made_up(input.shape.count(), seed++, kind), input.data);
    });
  }
  static void run(Model& model) {
    Pass pass = model.next_pass();
    model.net().forward(pass);
  }
  static void keep(io::NamedArrays& arrays, const std::string& name, Model& model, const Tensor& tensor,
                   const Shape& shape) {
    const Values values = values_of(model.context(), tensor);
    io::NamedArray& array = arrays.emplace_back();
    array.name = name;
    array.data.shape = shape.dims();
    array.data.floats.assign(values.values.begin(), values.values.end());
  }
  static void keep_inputs(io::NamedArrays& arrays, Model& model) {
    for_each_input(
        model, [&](const Blob& input) { keep(arrays, "in/" + input.name, model, input.data, input.shape); });
  }

  /// Runs a script of this folder on everything that was written; skips the test where it exits with 77, as
  /// it does without the modules that it needs.
  void compare(const std::string& script, const std::string& modules) {
    const ScriptRun run = run_python("onnx/" + script, "'" + folder_ + "'", path("report"));
    if (run.lacks_modules)
      GTEST_SKIP() << "needs Python with " << modules << " (BANYAN_PYTHON): " << run.report;
    EXPECT_EQ(run.code, 0) << run.report;
  }
};

}  // namespace banyan
