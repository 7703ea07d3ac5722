// extract_features WEIGHTS NET BLOBS DBS BATCHES lmdb|leveldb [CPU|GPU] [DEVICE_ID]: what a net computes,
// sample by sample, as LMDBs of Datum records with float_data; arguments, keys and records of Caffe's tool of
// that name.
#include <memory>
#include <sstream>

#include "banyan/base/number.hpp"
#include "banyan/data/record_writer.hpp"
#include "banyan/train/device_choice.hpp"
#include "banyan/train/model.hpp"
#include "common/tool.hpp"
#include "proto/banyan.pb.h"

DEFINE_bool(overwrite, false, "replace databases that exist");

namespace {

using namespace banyan;

std::vector<std::string> comma_list(const std::string& text, const char* what) {
  std::vector<std::string> items;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ',');) {
    if (item.empty()) bad_input(what, " ", banyan::quoted(text), " holds an empty name");
    items.push_back(item);
  }
  if (items.empty()) bad_input(what, " is empty");
  return items;
}

int whole_number(const std::string& text, const char* what, int least) {
  const auto number = banyan::number_in<int>(text);
  if (!number || *number < least)
    bad_input(what, ": expected a number >= ", least, ", found ", banyan::quoted(text));
  return *number;
}

/// [CPU|GPU] [DEVICE_ID]; Caffe's usage line writes the latter as DEVICE_ID=0.
DeviceChoice device_of(const std::vector<std::string>& arguments) {
  const std::string kind = arguments.size() > 6 ? arguments[6] : "CPU";
  std::string ordinal = arguments.size() > 7 ? arguments[7] : "0";
  if (ordinal.starts_with("DEVICE_ID=")) ordinal = ordinal.substr(10);
  whole_number(ordinal, "DEVICE_ID", 0);
  if (kind != "CPU" && kind != "GPU") bad_input("expected CPU or GPU, found ", banyan::quoted(kind));
  DeviceFlags flags;
  (kind == "GPU" ? flags.gpu : flags.cpu) = kind == "GPU" ? ordinal : "1";
  return choose_devices(flags).devices.at(0);
}

struct Feature {
  std::string blob, path;
  std::unique_ptr<data::RecordWriter> writer;
};

/// Ten digits, as Caffe's.
std::string key_of(std::uint64_t number) {
  const std::string text = tools::eight_digits(number);
  return text.size() < 10 ? std::string(10 - text.size(), '0') + text : text;
}

/// One record for each sample, of the lengths of axes 1 to 3.
void write_samples(const Values& values, Feature& feature) {
  const Shape& shape = values.shape;
  if (shape.axes() > 4)
    bad_input("blob ", banyan::quoted(feature.blob), " has ", shape.axes(),
              " axes; a Datum holds samples of at most 3");
  const auto length = [&](int axis) { return axis < shape.axes() ? shape[axis] : 1; };
  const std::int64_t samples = length(0), each = samples == 0 ? 0 : shape.count() / samples;
  for (std::int64_t n = 0; n < samples; ++n) {
    caffe::Datum datum;
    datum.set_channels(static_cast<int>(length(1)));
    datum.set_height(static_cast<int>(length(2)));
    datum.set_width(static_cast<int>(length(3)));
    for (std::int64_t i = n * each; i < (n + 1) * each; ++i)
      datum.add_float_data(static_cast<float>(values.values[i]));
    feature.writer->put(key_of(feature.writer->records()), datum.SerializeAsString());
  }
}

void extract(const std::vector<std::string>& arguments) {
  const std::vector<std::string> blobs = comma_list(arguments[2], "BLOBS"),
                                 paths = comma_list(arguments[3], "DBS");
  if (blobs.size() != paths.size())
    bad_input("the number of blob names and dataset names must be equal; found ", blobs.size(), " and ",
              paths.size());
  const int batches = whole_number(arguments[4], "BATCHES", 1);
  data::check_backend(arguments[5]);
  ModelOptions options;
  options.model = arguments[1];
  options.weights = {arguments[0]};
  options.device = device_of(arguments);
  options.keep_blobs = true;
  Model model(options);
  Net& net = model.net();
  std::vector<Feature> features;
  for (std::size_t i = 0; i < blobs.size(); ++i) {
    if (net.find_blob(blobs[i]) == nullptr)
      bad_input("unknown feature blob name ", banyan::quoted(blobs[i]), " in the network ",
                banyan::quoted(arguments[1]));
    LOG(INFO) << "Opening dataset " << paths[i];
    features.push_back(
        {blobs[i], paths[i], data::make_record_writer(arguments[5], paths[i], FLAGS_overwrite)});
  }
  LOG(INFO) << "Extracting Features";
  tools::Progress progress("Batches", static_cast<std::uint64_t>(batches));
  for (int batch = 0; batch < batches; ++batch, progress.step()) {
    Pass pass = model.next_pass();
    net.forward(pass);
    net.check_results();
    for (Feature& feature : features)
      write_samples(values_of(model.context(), net.find_blob(feature.blob)->data), feature);
  }
  for (Feature& feature : features) {
    feature.writer->close();
    LOG(INFO) << "Extracted features of " << feature.writer->records() << " query images for feature blob "
              << feature.blob;
  }
  LOG(INFO) << "Successfully extracted the features!";
}

}  // namespace

int main(int argc, char** argv) {
  return banyan::tools::run_tool(
      argc, argv,
      {"extract_features", "WEIGHTS NET BLOB[,BLOB...] DB[,DB...] BATCHES lmdb|leveldb [CPU|GPU] [DEVICE_ID]",
       "Runs BATCHES batches of the test phase of NET with WEIGHTS and writes each named blob to its LMDB "
       "folder:\n"
       "one Datum with float_data for each sample.",
       "extract_features net.caffemodel net.prototxt fc7,prob fc7_lmdb,prob_lmdb 10 lmdb GPU 0", 6, 8,
       extract});
}
