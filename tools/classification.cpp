// classification DEPLOY MODEL MEAN LABELS IMAGE...: the most probable classes of images, with the arguments,
// the preprocessing and the output of Caffe's example of that name.
#include <charconv>
#include <cmath>
#include <fstream>
#include <numeric>
#include <optional>

#include "banyan/data/image_codec.hpp"
#include "banyan/io/binary_proto.hpp"
#include "banyan/io/weights.hpp"
#include "banyan/train/device_choice.hpp"
#include "banyan/train/model.hpp"
#include "common/tool.hpp"

DEFINE_string(gpu, "", "the GPU to run on");
DEFINE_string(cpu, "", "1: run on the CPU (the default)");
DEFINE_int32(top, 5, "classes shown for each image");
DEFINE_double(scale, 1, "factor of the pixels after the mean is subtracted");
DEFINE_string(fold, "on", "normalizations become a part of the convolutions before them (on) or not (off)");
DEFINE_bool(json, false, "print JSON");

namespace {

using namespace banyan;

constexpr std::size_t kLargestImage = std::size_t{1} << 30;

/// A line for each class.
std::vector<std::string> read_labels(const std::string& path) {
  std::ifstream file(path);
  if (!file) bad_input("cannot open the labels ", banyan::quoted(path));
  std::vector<std::string> labels;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    labels.push_back(line);
  }
  if (labels.empty()) bad_input("the labels ", banyan::quoted(path), " are empty");
  return labels;
}

/// `104,117,123`, or nothing if the text is not a list of numbers.
std::optional<std::vector<double>> numbers_of(const std::string& text) {
  std::vector<double> numbers;
  const char *at = text.data(), *end = at + text.size();
  while (true) {
    double number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc()) return std::nullopt;
    numbers.push_back(number);
    if (next == end) return numbers;
    if (*next != ',') return std::nullopt;
    at = next + 1;
  }
}

/// One value per channel: those of `text`, the means over the mean image's pixels, or zeros.
std::vector<double> channel_means(const std::string& text, std::int64_t channels) {
  const auto count = static_cast<std::size_t>(channels);
  if (text.empty()) return std::vector<double>(count, 0);
  if (auto numbers = numbers_of(text)) {
    if (numbers->size() == 1) numbers->resize(count, numbers->front());
    if (numbers->size() != count)
      bad_input("mean ", banyan::quoted(text), ": expected 1 or ", count, " values, found ", numbers->size());
    return *numbers;
  }
  const io::BlobData image =
      io::decode_blob(io::read_binary_proto<caffe::BlobProto>(text), "mean " + banyan::quoted(text));
  const std::size_t axes = image.shape.size();
  if (axes < 3 || image.shape[axes - 3] != channels || image.count() == 0 ||
      image.count() != count * static_cast<std::size_t>(image.shape[axes - 2] * image.shape[axes - 1]))
    bad_input("mean ", banyan::quoted(text), ": expected one image of ", channels,
              " channels like the net's input, found shape ", io::shape_text(image.shape));
  std::vector<double> means(count, 0);
  const std::size_t plane = image.count() / count;
  for (std::size_t i = 0; i < image.count(); ++i) means[i / plane] += image.at(i);
  for (double& mean : means) mean /= static_cast<double>(plane);
  return means;
}

class Classifier {
 public:
  Classifier(const ModelOptions& options, const std::string& mean, const std::string& labels)
      : model_(options) {
    input_ = find_input(options.model);
    if (model_.net().outputs().size() != 1)
      bad_input(banyan::quoted(options.model), ": expected one output, found ",
                model_.net().outputs().size());
    Shape shape = input_->shape;
    if (shape.axes() != 4 || (shape[1] != 1 && shape[1] != 3) || shape.count(1) == 0)
      bad_input(banyan::quoted(options.model), ": the input ", banyan::quoted(input_->name),
                " should be images of 1 or 3 channels, N x C x H x W; its shape is ", shape.to_string());
    shape.set_dim(0, 1);
    input_->shape = shape;
    model_.net().reshape();
    means_ = channel_means(mean, shape[1]);
    const auto classes = static_cast<std::size_t>(model_.net().outputs()[0]->shape.count());
    if (!labels.empty())
      labels_ = read_labels(labels);
    else
      for (std::size_t i = 0; i < classes; ++i) labels_.push_back(std::to_string(i));
    if (labels_.size() != classes)
      bad_input(banyan::quoted(labels), " has ", labels_.size(), " labels; the net has ", classes,
                " classes");
  }

  /// Of all classes.
  std::vector<double> scores(const std::string& path) {
    const Shape& shape = input_->shape;
    const std::string bytes = io::read_file(path, kLargestImage);
    data::Image image, resized;
    try {
      data::decode_image(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(),
                         shape[1] == 1 ? data::ColorMode::gray : data::ColorMode::bgr, image);
    } catch (const Error& error) {
      throw Error(error.kind(), banyan::quoted(path) + ": " + error.message());
    }
    const int height = static_cast<int>(shape[2]), width = static_cast<int>(shape[3]);
    if (image.height != height || image.width != width) {
      data::resize_bilinear(image, height, width, resized);
      std::swap(image, resized);
    }
    std::vector<double> values;
    for (std::size_t c = 0; c < means_.size(); ++c)
      for (std::size_t i = c; i < image.pixels.size(); i += means_.size())
        values.push_back((image.pixels[i] - means_[c]) * FLAGS_scale);
    set_values(model_.context(), values, input_->data);
    Pass pass = model_.next_pass();
    model_.net().forward(pass);
    model_.net().check_results();
    std::vector<double> scores = values_of(model_.context(), model_.net().outputs()[0]->data).values;
    for (const double score : scores)
      if (!std::isfinite(score)) runtime_failure(banyan::quoted(path), ": the net's output is not finite");
    return scores;
  }
  const std::string& label(std::size_t index) const { return labels_[index]; }

 private:
  Blob* find_input(const std::string& path) {
    Blob* input = nullptr;
    const Net& net = model_.net();
    for (std::size_t i = 0; i < net.layers().size(); ++i) {
      const Blobs outputs = net.outputs_of(static_cast<int>(i));
      if (!net.layers()[i]->traits().filled_by_user) continue;
      if (input != nullptr || outputs.size() != 1)
        bad_input(banyan::quoted(path), ": expected one input; there are more");
      input = outputs[0];
    }
    if (input == nullptr)
      bad_input(banyan::quoted(path),
                ": no Input layer; expected a deploy net, whose image the program fills in");
    return input;
  }

  Model model_;
  Blob* input_ = nullptr;
  std::vector<double> means_;
  std::vector<std::string> labels_;
};

/// Indices of the best `count` scores; of equal ones the first class comes first.
std::vector<std::size_t> best_of(const std::vector<double>& scores, int count) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return scores[a] > scores[b]; });
  order.resize(std::min(order.size(), static_cast<std::size_t>(count)));
  return order;
}

std::string fixed(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.4f", value);
  return text;
}

void classify(const std::vector<std::string>& arguments) {
  if (FLAGS_top < 1) bad_input("--top=", FLAGS_top, ": expected a number >= 1");
  if (FLAGS_fold != "on" && FLAGS_fold != "off") bad_input("--fold=", FLAGS_fold, ": expected on or off");
  ModelOptions options;
  options.fold = FLAGS_fold == "on";
  options.model = arguments[0];
  options.weights = {arguments[1]};
  DeviceFlags flags;
  if (!FLAGS_gpu.empty()) flags.gpu = FLAGS_gpu;
  if (!FLAGS_cpu.empty()) flags.cpu = FLAGS_cpu;
  const auto devices = choose_devices(flags).devices;
  if (devices.size() != 1) bad_input("expected one device, found ", devices.size());
  options.device = devices[0];
  Classifier classifier(options, arguments[2], arguments[3]);
  std::vector<std::string> images;
  for (std::size_t i = 4; i < arguments.size(); ++i) {
    const std::vector<double> scores = classifier.scores(arguments[i]);
    std::vector<std::string> classes;
    if (!FLAGS_json) std::cout << "---------- Prediction for " << arguments[i] << " ----------\n";
    for (const std::size_t index : best_of(scores, FLAGS_top)) {
      const std::string label = json_string(classifier.label(index));
      if (!FLAGS_json) std::cout << fixed(scores[index]) << " - \"" << classifier.label(index) << "\"\n";
      classes.push_back(
          cat("{\"class\": ", index, ", \"label\": ", label, ", \"score\": ", scores[index], "}"));
    }
    images.push_back(
        cat("{\"image\": ", json_string(arguments[i]), ", \"predictions\": ", json_array(classes), "}"));
  }
  if (FLAGS_json) std::cout << json_array(images) << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  return banyan::tools::run_tool(
      argc, argv,
      {"classification", "DEPLOY MODEL MEAN LABELS IMAGE...",
       "Shows the most probable classes of images (JPEG, PNG, WebP, BMP). DEPLOY is a net with one Input of "
       "images and "
       "one "
       "output,\n"
       "MODEL its weights (.caffemodel), MEAN a mean image (.binaryproto, of which the mean of each channel "
       "is "
       "subtracted),\n"
       "values such as 104,117,123 (blue first) or \"\", LABELS a file with a line for each class, or \"\" "
       "for "
       "numbers.",
       "classification deploy.prototxt net.caffemodel mean.binaryproto labels.txt cat.jpg dog.jpg", 5, 100000,
       classify});
}
