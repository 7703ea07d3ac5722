// Times what oneDNN computes for a net. Each line of standard input is a convolution or a matrix product, as
// onednn_versions.py writes it; each line of output has the milliseconds of the primitive, those of
// converting the weights between Caffe's order and the primitive's, and the implementation's name. Compiled
// against oneDNN 2 or 3.
//
// usage: onednn_problems REPEATS elapsed|processor        the fastest of REPEATS runs; which time
#include <algorithm>
#include <cstdint>
#include <ctime>
#include <iostream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/cpu/dnnl_version.hpp"

namespace {

using banyan::ops::describe;
using banyan::ops::describe_gradient;
using dnnl::memory;
using Desc = memory::desc;
using Tag = memory::format_tag;
using Type = memory::data_type;

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

/// Memory of an argument, shared by all primitives: an argument number is either always read or always
/// written. What is read are values between 0.5 and 1, as f32 and as bf16: zeros and denormal numbers may
/// take another time.
memory shared_memory(int argument, const Desc& desc) {
  static std::unordered_map<int, memory> blocks;
  memory& block = blocks[argument];
  if (!block || block.get_desc().get_size() < desc.get_size()) {
    block = memory({{static_cast<memory::dim>(desc.get_size())}, Type::u8, Tag::a}, cpu());
    auto* values = static_cast<std::uint16_t*>(block.get_data_handle());
    for (std::size_t i = 0; i < desc.get_size() / 2; ++i)
      values[i] = static_cast<std::uint16_t>(0x3f00u | (i * 2654435761u >> 20 & 0x7fu));
  }
  return memory(desc, cpu(), block.get_data_handle());
}

using Arguments = std::vector<std::pair<int, Desc>>;

class Stopwatch {
 public:
  Stopwatch(int repeats, bool of_processor)
      : repeats_(repeats), clock_(of_processor ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC) {}

  /// Milliseconds of the fastest run, after one that is not counted.
  double fastest(const dnnl::primitive& primitive, const Arguments& described) const {
    std::unordered_map<int, memory> arguments;
    for (const auto& [number, desc] : described)
      if (desc.get_size() > 0) arguments.emplace(number, shared_memory(number, desc));
    dnnl::stream stream(cpu());
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i <= repeats_; ++i) {
      const double start = now();
      primitive.execute(stream, arguments);
      stream.wait();
      if (i > 0) best = std::min(best, now() - start);
    }
    return best;
  }
  /// Of a conversion from one order to another, added to the target or not.
  double of_conversion(const Desc& from, const Desc& to, bool adds) const {
    dnnl::primitive_attr attributes;
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    if (adds) attributes.set_post_ops(sum);
    const dnnl::reorder reorder(dnnl::reorder::primitive_desc(cpu(), from, cpu(), to, attributes));
    return fastest(reorder, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }

 private:
  double now() const {
    timespec time{};
    clock_gettime(clock_, &time);
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
  }
  int repeats_;
  clockid_t clock_;
};

void print(double primitive, double conversion, const char* implementation) {
  std::cout << primitive << ' ' << conversion << ' ' << implementation << std::endl;
}

Type read_type(std::istream& line) {
  std::string name;
  line >> name;
  if (name != "f32" && name != "bf16") throw std::runtime_error("unknown type " + name);
  return name == "f32" ? Type::f32 : Type::bf16;
}

/// Activations are channels-last and the order of the weights is oneDNN's choice, as in
/// ops/cpu/convolution_dnnl.cpp.
void convolution(const std::string& pass, std::istream& line, const Stopwatch& watch) {
  const Type in_type = read_type(line), weight_type = read_type(line), out_type = read_type(line);
  bool has_bias = false;
  memory::dim groups = 0, batch = 0, inputs = 0, outputs = 0;
  memory::dims size(2), result(2), kernel(2), stride(2), dilation(2), pad(2), pad_after(2);
  line >> has_bias >> groups >> batch >> inputs >> outputs;
  for (std::size_t i = 0; i < 2; ++i) {
    line >> size[i] >> result[i] >> kernel[i] >> stride[i] >> dilation[i] >> pad[i];
    pad_after[i] = (result[i] - 1) * stride[i] + (kernel[i] - 1) * (dilation[i] + 1) + 1 - size[i] - pad[i];
  }
  if (!line || groups == 0) throw std::runtime_error("incomplete convolution");
  memory::dims weight_shape{outputs / groups, inputs / groups, kernel[0], kernel[1]};
  if (groups > 1) weight_shape.insert(weight_shape.begin(), groups);
  const Desc caffe(weight_shape, Type::f32, groups > 1 ? Tag::goihw : Tag::oihw);
  const Desc bias = has_bias ? Desc({outputs}, Type::f32, Tag::x) : Desc();
  const auto in = [&](Type type) { return Desc({batch, inputs, size[0], size[1]}, type, Tag::nhwc); };
  const auto weight = [&](Type type) { return Desc(weight_shape, type, Tag::any); };
  const auto out = [&](Type type) { return Desc({batch, outputs, result[0], result[1]}, type, Tag::nhwc); };

  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  const auto forward = [&](Type factors, const Desc& with_bias, Type product) {
    return describe<dnnl::convolution_forward>(cpu(), attributes, dnnl::prop_kind::forward_training, kDirect,
                                               in(factors), weight(factors), with_bias, out(product), stride,
                                               dilation, pad, pad_after);
  };
  if (pass == "forward_training") {
    const auto desc = forward(in_type, bias, out_type);
    print(watch.fastest(dnnl::convolution_forward(desc), {{DNNL_ARG_SRC, desc.src_desc()},
                                                          {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                                                          {DNNL_ARG_BIAS, bias},
                                                          {DNNL_ARG_DST, desc.dst_desc()},
                                                          {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()}}),
          watch.of_conversion(caffe, desc.weights_desc(), false), desc.impl_info_str());
  } else if (pass == "backward_data") {
    const auto desc = describe_gradient<dnnl::convolution_backward_data>(
        cpu(), attributes, forward(out_type, Desc(), Type::f32), kDirect, in(in_type), weight(weight_type),
        out(out_type), stride, dilation, pad, pad_after);
    print(
        watch.fastest(dnnl::convolution_backward_data(desc), {{DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
                                                              {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                                                              {DNNL_ARG_DIFF_SRC, desc.diff_src_desc()},
                                                              {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()}}),
        watch.of_conversion(caffe, desc.weights_desc(), false), desc.impl_info_str());
  } else if (pass == "backward_weights") {
    const auto desc = describe_gradient<dnnl::convolution_backward_weights>(
        cpu(), attributes, forward(in_type, bias, Type::f32), kDirect, in(in_type), weight(weight_type), bias,
        out(out_type), stride, dilation, pad, pad_after);
    print(watch.fastest(dnnl::convolution_backward_weights(desc),
                        {{DNNL_ARG_SRC, desc.src_desc()},
                         {DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
                         {DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc()},
                         {DNNL_ARG_DIFF_BIAS, bias},
                         {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()}}),
          watch.of_conversion(desc.diff_weights_desc(), caffe, true), desc.impl_info_str());
  } else {
    throw std::runtime_error("unknown pass " + pass);
  }
}

/// As in ops/cpu/gemm_bf16.cpp.
void product(std::istream& line, const Stopwatch& watch) {
  const Type a_type = read_type(line), b_type = read_type(line), c_type = read_type(line);
  memory::dim m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false, adds = false;
  line >> m >> n >> k >> transpose_a >> transpose_b >> adds;
  if (!line) throw std::runtime_error("incomplete product");
  const Desc a({m, k}, a_type, transpose_a ? Tag::ba : Tag::ab),
      b({k, n}, b_type, transpose_b ? Tag::ba : Tag::ab), c({m, n}, c_type, Tag::ab);
  dnnl::primitive_attr attributes;
  dnnl::post_ops sum;
  sum.append_sum(1.0f);
  if (adds) attributes.set_post_ops(sum);
  const auto desc = describe<dnnl::matmul>(cpu(), attributes, a, b, c);
  print(watch.fastest(dnnl::matmul(desc), {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}}), 0,
        desc.impl_info_str());
}

}  // namespace

int main(int count, char** words) try {
  if (count != 3) throw std::runtime_error("usage: onednn_problems REPEATS elapsed|processor");
  const Stopwatch watch(std::stoi(words[1]), words[2] == std::string("processor"));
  const dnnl_version_t& version = *dnnl::version();
  std::cout << version.major << '.' << version.minor << '.' << version.patch << '\n';
  for (std::string text; std::getline(std::cin, text);) {
    std::istringstream line(text);
    std::string kind;
    line >> kind;
    if (kind == "matmul")
      product(line, watch);
    else
      convolution(kind, line, watch);
  }
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
