// What BVLC Caffe 1.0 itself makes of random nets and solvers of its layers: tests/net/caffe/results.txt,
// which tests/net/caffe/record.py wrote with Caffe's Python module. BANYAN_CAFFE_RESULTS=FILE takes another
// file of it.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "net/random_training.hpp"

namespace banyan {
namespace {

// --- the same in record.py ---

std::vector<double> made_values(const std::string& kind, std::int64_t count, std::uint32_t phase) {
  std::uint32_t x = (phase * 7919 + 12345) & 0x7fffffff;
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    x = (x * 1103515245 + 12345) & 0x7fffffff;
    const double wide = (x >> 8) / 4194304.0 - 1;
    values.push_back(kind == "wide"    ? wide
                     : kind == "share" ? 0.5 + 0.375 * wide
                                       : std::floor((0.5 + 0.5 * wide) * std::atoi(kind.c_str())));
  }
  return values;
}

std::vector<double> parameter_values(const std::string& layer, int slot, const Shape& shape, bool statistic) {
  const auto phase = static_cast<std::uint32_t>(100 * std::atoi(layer.c_str() + 1) + slot);
  std::vector<double> values = made_values("wide", shape.count(), phase);
  const double scale = std::sqrt(2.0 * static_cast<double>(shape.axes() > 0 ? shape[0] : 1) /
                                 static_cast<double>(shape.count()));
  for (double& value : values)
    value = statistic          ? std::vector{0.125 * value, 1 + 0.5 * value, 1.0}[slot]
            : shape.axes() < 2 ? 0.5 * value
                               : scale * value;
  return values;
}

// --- the file ---

/// A line of results: a few values, evenly spaced, and the root of the sum of all squares.
struct Recorded {
  std::string kind, name, shape;
  double norm = 0;
  std::vector<double> shown;
};

struct Made {
  std::string name, kind;
  std::vector<std::int64_t> dims;
  std::int64_t count() const { return Shape(dims).count(); }
};

struct Entry {
  std::string title;  ///< "net 3 test", "solver 4 base_lr: 0.1 ..."
  std::string text;
  std::vector<Made> inputs;
  std::vector<Recorded> results;
};

std::vector<Entry> read_entries() {
  const char* other = std::getenv("BANYAN_CAFFE_RESULTS");
  std::ifstream file(other != nullptr ? other : BANYAN_SOURCE "/tests/net/caffe/results.txt");
  std::vector<Entry> entries;
  bool results = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "net" || first == "solver") {
      entries.push_back({line, "", {}, {}});
      results = false;
    } else if (first == "input") {
      Made& input = entries.back().inputs.emplace_back();
      words >> input.name >> input.kind;
      for (std::int64_t dim = 0; words >> dim;) input.dims.push_back(dim);
    } else if (first == "results") {
      results = true;
    } else if (results && first != "end") {
      Recorded& recorded = entries.back().results.emplace_back();
      recorded.kind = first;
      words >> recorded.name >> recorded.shape >> recorded.norm;
      for (double value = 0; words >> value;) recorded.shown.push_back(value);
    } else if (first != "end" && first != "#") {
      entries.back().text += line + "\n";
    }
  }
  return entries;
}

// --- comparison ---

/// The largest distance of what is recorded, as a part of the array's largest value; Caffe's are floats.
/// `least`: what takes its place where the array holds next to nothing.
double distance(const Recorded& recorded, const std::vector<double>& values, double least) {
  double squares = 0, largest = least;
  for (const double value : values) {
    squares += value * value;
    largest = std::max(largest, std::abs(value));
  }
  double far = std::abs(std::sqrt(squares) - recorded.norm) / std::sqrt(static_cast<double>(values.size()));
  const std::size_t shown = recorded.shown.size(), count = values.size();
  for (std::size_t i = 0; i < shown; ++i)
    far = std::max(far,
                   std::abs(values[shown == count ? i : i * (count - 1) / (shown - 1)] - recorded.shown[i]));
  return far / largest;
}

/// Six digits are recorded, of values that Caffe computed with floats; ill-conditioned nets lose some.
constexpr double kTolerance = 2e-4;

void expect_close(const std::vector<Recorded>& results,
                  const std::function<std::vector<double>(const Recorded&)>& values_of_result) {
  double gradients = 0;  // the largest: others may be what rounding left of nothing
  for (const Recorded& recorded : results)
    if (recorded.kind == "grad" || recorded.kind == "diff")
      for (const double value : recorded.shown) gradients = std::max(gradients, std::abs(value));
  for (const Recorded& recorded : results) {
    const std::vector<double> values = values_of_result(recorded);
    if (values.empty()) continue;
    const bool gradient = recorded.kind == "grad" || recorded.kind == "diff";
    EXPECT_LE(distance(recorded, values, gradient ? 1e-2 * gradients + 1e-6 : 1e-3), kTolerance)
        << recorded.kind << " " << recorded.name;
  }
}

void feed(const Entry& entry,
          const std::function<void(const std::string&, const std::vector<double>&)>& set) {
  for (std::size_t i = 0; i < entry.inputs.size(); ++i) {
    const Made& input = entry.inputs[i];
    set(input.name, made_values(input.kind, input.count(), static_cast<std::uint32_t>(i)));
  }
}

std::string shape_text(const Shape& shape) {
  std::string text;
  for (const std::int64_t dim : shape.dims()) text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text.empty() ? "1" : text;
}

const LearnableParameter* find(Net& net, const std::string& name) {
  for (const LearnableParameter& parameter : net.parameters())
    if (cat(parameter.layer, "/", parameter.slot) == name) return &parameter;
  return nullptr;
}

template <class T>
void set_parameters(Context& context, Net& net) {
  for (const LearnableParameter& parameter : net.parameters()) {
    const std::vector<double> values =
        parameter_values(parameter.layer, parameter.slot, parameter.value.shape(), parameter.is_statistic);
    Tensor value = parameter.value;
    copy_from_host(context, std::vector<T>(values.begin(), values.end()).data(), value);
  }
  net.parameters_replaced();
}

/// `all`: every blob is kept, in f64; otherwise as in training.
template <class T>
void compare_net(const Entry& entry, bool all) {
  NetBench bench;
  NetOptions options;
  options.phase = entry.title.ends_with("test") ? Phase::test : Phase::train;
  options.dtype = all ? DType::f64 : DType::f32;
  if (all) options.reuse_memory = options.fuse = options.fuse_scale = false;
  const auto net = bench.make(entry.text, options);
  set_parameters<T>(bench.context, *net);
  feed(entry,
       [&](const std::string& name, const std::vector<double>& values) { net->set_input(name, values); });
  bench.pass.update_statistics = true;
  net->zero_gradients();
  net->forward(bench.pass);
  if (net->graph().trains) net->backward(bench.pass);
  unsigned compared = 0;
  expect_close(entry.results, [&](const Recorded& recorded) -> std::vector<double> {
    const Tensor* tensor = nullptr;
    if (recorded.kind == "blob" || recorded.kind == "diff") {
      const Blob* blob = net->find_blob(recorded.name);
      EXPECT_NE(blob, nullptr) << recorded.name;
      if (blob == nullptr || (!all && (recorded.kind == "diff" || !net->keeps(*blob)))) return {};
      EXPECT_EQ(shape_text(blob->shape), recorded.shape) << recorded.name;
      tensor = recorded.kind == "blob" ? &blob->data : &blob->grad;
    } else {
      const LearnableParameter* parameter = find(*net, recorded.name);
      EXPECT_NE(parameter, nullptr) << recorded.name;
      if (parameter == nullptr) return {};
      EXPECT_EQ(shape_text(parameter->value.shape()), recorded.shape) << recorded.name;
      tensor = recorded.kind == "stat" ? &parameter->value : &parameter->grad;
    }
    EXPECT_TRUE(tensor->defined() || !all || recorded.norm == 0 || !net->graph().trains)
        << recorded.kind << " " << recorded.name;
    if (!tensor->defined()) return {};
    ++compared;
    const std::vector<T> values = values_of<T>(bench.context, *tensor);
    return {values.begin(), values.end()};
  });
  EXPECT_GT(compared, 0U);
}

bool is_net(const Entry& entry) { return entry.title.starts_with("net "); }

TEST(CaffeResults, AreThoseOfNets) {
  unsigned nets = 0;
  std::set<std::string> types;
  for (const Entry& entry : read_entries()) {
    if (!is_net(entry)) continue;
    ++nets;
    SCOPED_TRACE(cat(entry.title, ":\n", entry.text));
    const caffe::NetParameter net = net_of(entry.text);
    for (const caffe::LayerParameter& layer : net.layer()) types.insert(layer.type());
    try {
      compare_net<double>(entry, true);
      compare_net<float>(entry, false);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  EXPECT_GE(nets, 190U);
  EXPECT_GE(types.size(),
            47U);  // of BVLC's 61; the others read or write files, draw numbers or have no values
}

TEST(CaffeResults, AreThoseOfSolvers) {
  FLAGS_minloglevel = 2;
  const RandomTrainingFolder folder;
  unsigned solvers = 0;
  for (const Entry& entry : read_entries()) {
    if (is_net(entry)) continue;
    ++solvers;
    SCOPED_TRACE(cat(entry.title, ":\n", entry.text));
    TrainOptions options;
    const std::string settings = entry.title.substr(entry.title.find(' ', 7));
    caffe::SolverParameter solver = io::parse_solver_text(settings, "solver");
    *solver.mutable_net_param() = net_of(entry.text);
    solver.set_snapshot_prefix(folder.path() + "/out");
    options.solver_path = folder.path() + "/solver.prototxt";
    options.solver = solver_settings(solver, options.solver_path);
    options.devices = cpu_devices(1);
    options.precision = RunPrecision::f64;
    options.pinning = Pinning::off;
    try {
      Session session(options);
      feed(entry, [&](const std::string& name, const std::vector<double>& values) {
        session.set_input(name, values);
      });
      std::set<std::string> normalizations;
      for (const caffe::LayerParameter& layer : solver.net_param().layer())
        if (layer.type() == "BatchNorm") normalizations.insert(layer.name());
      const auto place = [](const Recorded& recorded) {
        const std::size_t slash = recorded.name.find('/');
        return std::pair(recorded.name.substr(0, slash), std::atoi(recorded.name.c_str() + slash + 1));
      };
      for (const Recorded& recorded : entry.results) {
        if (recorded.kind != "param") continue;
        const auto [layer, slot] = place(recorded);
        std::istringstream dims(recorded.shape);
        std::vector<std::int64_t> lengths;
        for (std::string dim; std::getline(dims, dim, 'x');) lengths.push_back(std::atoi(dim.c_str()));
        session.set_parameter(layer, slot,
                              parameter_values(layer, slot, Shape(lengths), normalizations.count(layer) > 0));
      }
      std::vector<double> losses;
      for (int i = 0; i < 6; ++i) {
        session.step(1);
        losses.push_back(session.metrics().loss);
      }
      expect_close(entry.results, [&](const Recorded& recorded) {
        if (recorded.kind == "loss") return losses;
        const auto [layer, slot] = place(recorded);
        return session.parameter(layer, slot).values;
      });
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  EXPECT_GE(solvers, 40U);
}

}  // namespace
}  // namespace banyan
