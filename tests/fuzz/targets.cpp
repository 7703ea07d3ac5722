#include "fuzz/targets.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <webp/encode.h>
#include <zlib.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "banyan/base/error.hpp"
#include "banyan/data/annotated.hpp"
#include "banyan/data/box_list.hpp"
#include "banyan/data/datum.hpp"
#include "banyan/data/documents.hpp"
#include "banyan/data/hdf5_source.hpp"
#include "banyan/data/heatmaps.hpp"
#include "banyan/data/idx.hpp"
#include "banyan/data/image_codec.hpp"
#include "banyan/data/image_list.hpp"
#include "banyan/data/image_transforms.hpp"
#include "banyan/data/labelled_clips.hpp"
#include "banyan/data/poses.hpp"
#include "banyan/data/roi_list.hpp"
#include "banyan/data/segmentation.hpp"
#include "banyan/data/video.hpp"
#include "banyan/io/array_names.hpp"
#include "banyan/io/atomic_file.hpp"
#include "banyan/io/binary_proto.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"
#include "banyan/io/weights.hpp"
#include "banyan/metrics/json_lines.hpp"
#include "banyan/metrics/record_file.hpp"
#include "banyan/parallel/tree_choice.hpp"
#include "banyan/report/report.hpp"
#include "banyan/train/commands.hpp"
#include "banyan/train/session.hpp"
#include "banyan/train/snapshot_files.hpp"
#include "banyan/train/solver_settings.hpp"
#include "io/hdf5_file.hpp"
#include "io/hdf5_model.hpp"

namespace banyan::fuzz {
namespace {

namespace fs = std::filesystem;
using Seeds = std::vector<std::string>;

/// For readers that take a path.
class BytesAsFile {
 public:
  explicit BytesAsFile(std::string_view bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    if (descriptor_ < 0 ||
        ::write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      runtime_failure("cannot make a file in memory");
  }
  ~BytesAsFile() { ::close(descriptor_); }
  BytesAsFile(const BytesAsFile&) = delete;
  BytesAsFile& operator=(const BytesAsFile&) = delete;
  std::string path() const { return cat("/proc/self/fd/", descriptor_); }

 private:
  int descriptor_;
};

/// As the threads of a data layer make an item of a record.
void write_item(const data::ItemWriter& writer, const data::Record& record, std::uint64_t item) {
  data::ItemPlace place;
  std::vector<std::vector<float>> outputs;
  for (const Shape& shape : writer.shapes(record, item)) {
    outputs.emplace_back(static_cast<std::size_t>(shape.count()));
    place.outputs.push_back(outputs.back().data());
  }
  std::vector<double> rows;
  place.rows = &rows;
  writer.write(record, item, place);
}

Seeds models(const std::string& begin) {
  Seeds texts;
  for (const auto& entry : fs::recursive_directory_iterator(BANYAN_SOURCE "/models"))
    if (entry.path().filename().string().starts_with(begin) && entry.path().extension() == ".prototxt" &&
        entry.file_size() < 16384)
      texts.push_back(io::read_file(entry.path(), 16384));
  return texts;
}

// Of every kind of value that the text of a net can hold, in the current form and in those of older versions.
const char* const kSmallNet = R"(name: "small"
layer { name: "d" type: "Input" top: "d" top: "l" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } shape { dim: 2 } } }
layer { name: "c" type: "Convolution" bottom: "d" top: "c" param { name: "w" lr_mult: 1.5 decay_mult: 0 }
  convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad: 1 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "b" type: "BatchNorm" bottom: "c" top: "c" include { phase: TRAIN } batch_norm_param { eps: 1e-5 } }
layer { name: "p" type: "Pooling" bottom: "c" top: "p" pooling_param { pool: MAX kernel_size: 2 } }
layer { name: "i" type: "InnerProduct" bottom: "p" top: "i" inner_product_param { num_output: 5 } }
layer { name: "s" type: "SoftmaxWithLoss" bottom: "i" bottom: "l" top: "s" loss_weight: 1 })";
const char* const kOldNet = R"(name: 'old' input: "d" input_dim: 2 input_dim: 3 input_dim: 8 input_dim: 8
layers { name: "c" type: CONVOLUTION bottom: "d" top: "c" blobs_lr: 1 blobs_lr: 2 weight_decay: 1
  convolution_param { num_output: 4 kernel_size: 3 } }  # a comment
layers { name: "r" type: RELU bottom: "c" top: "c" } layers { layer { name: "v" type: "pool" kernelsize: 2 } bottom: "c" top: "v" })";
const char* const kSolver =
    R"(net_param { layer { name: "d" type: "DummyData" top: "d" dummy_data_param { shape { dim: 2 dim: 3 } } } }
base_lr: 0.01 momentum: 0.9 weight_decay: 5e-4 lr_policy: "multistep" gamma: 0.1 stepvalue: 10 stepvalue: 20 max_iter: 30
test_iter: 1 test_interval: 5 display: 1 iter_size: 2 type: "SGD" solver_mode: CPU random_seed: 7 average_loss: 3
snapshot: 5 snapshot_prefix: "x" regularization_type: "L1" clip_gradients: 35 rampup_interval: 3)";

Seeds net_seeds() {
  Seeds seeds = models("train");
  seeds.insert(seeds.end(), {kSmallNet, kOldNet});
  return seeds;
}
Seeds solver_seeds() {
  Seeds seeds = models("solver");
  seeds.emplace_back(kSolver);
  return seeds;
}

void run_check(std::string_view bytes) {
  const BytesAsFile file(bytes);
  CheckOptions options;
  options.files = {file.path()};
  check_files(options);
}

Seeds small_nets() { return {kSmallNet, kOldNet, kSolver}; }

void run_solver(std::string_view bytes) {
  solver_settings(io::parse_solver_text(bytes, "fuzz.prototxt"), "fuzz.prototxt");
}

void run_net_text(std::string_view bytes) {
  caffe::NetParameter net;
  io::find_text_problems(bytes, "fuzz.prototxt", net);
  io::parse_net_text(bytes, "fuzz.prototxt");
}

Seeds binary_nets() {
  Seeds seeds;
  for (const char* text : {kSmallNet, kOldNet}) {
    caffe::NetParameter net;
    io::parse_text(text, "seed", net);
    seeds.push_back(net.SerializeAsString());
  }
  return seeds;
}

void run_binary_net(std::string_view bytes) {
  const BytesAsFile file(bytes);
  auto net = io::read_binary_proto<caffe::NetParameter>(file.path());
  io::upgrade_net(net, "fuzz");
}

caffe::NetParameter model_seed() {
  caffe::NetParameter net;
  net.set_name("model");
  for (const char* type : {"InnerProduct", "Convolution"}) {
    caffe::LayerParameter& layer = *net.add_layer();
    layer.set_name(type);
    layer.set_type(type);
    const std::vector<float> values(24, 0.5F);
    const std::vector<double> doubles(3, 1e-3);
    *layer.add_blobs() = io::encode_blob({2, 3, 4}, values.data());
    *layer.add_blobs() = io::encode_blob({3}, doubles.data());
  }
  return net;
}

Seeds weight_seeds() {
  caffe::NetParameter old;  // as the first versions wrote it
  caffe::V1LayerParameter& layer = *old.add_layers();
  layer.set_name("c");
  layer.set_type(caffe::V1LayerParameter::CONVOLUTION);
  caffe::BlobProto& blob = *layer.add_blobs();
  blob.set_num(1);
  blob.set_channels(2);
  blob.set_height(1);
  blob.set_width(3);
  for (int i = 0; i < 6; ++i) blob.add_data(static_cast<float>(i));
  return {model_seed().SerializeAsString(), old.SerializeAsString()};
}

void run_weights(std::string_view bytes) {
  const io::ModelWeights weights = io::parse_weights(bytes, "fuzz.caffemodel");
  static_cast<void>(weights);
}

Seeds array_seeds(void (*write)(const std::string&, const io::NamedArrays&)) {
  const std::string path = cat(fs::temp_directory_path().string(), "/fuzz_", ::getpid(), "_arrays");
  const io::ModelWeights weights = io::parse_weights(model_seed().SerializeAsString(), "seed");
  Seeds seeds;
  for (const io::NameStyle style : {io::NameStyle::index, io::NameStyle::torch}) {
    write(path, io::to_arrays(weights, style));
    seeds.push_back(io::read_file(path, 1 << 20));
  }
  fs::remove(path);
  return seeds;
}

/// On to a model.
template <io::NamedArrays (*parse)(std::string_view, const std::string&)>
void run_arrays(std::string_view bytes) {
  io::to_proto(io::from_arrays(parse(bytes, "fuzz"), "fuzz"));
}

const char* const kTrainedNet = R"(
layer { name: "d" type: "DummyData" top: "d" top: "t" dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 2 dim: 4 }
  data_filler { type: "constant" value: 1 } } }
layer { name: "i" type: "InnerProduct" bottom: "d" top: "i" inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "l" type: "EuclideanLoss" bottom: "i" bottom: "t" top: "l" })";

TrainOptions small_training() {
  TrainOptions options;
  options.devices = {{DeviceKind::cpu, 0}};
  caffe::SolverParameter solver;
  io::parse_text(cat("base_lr: 0.1 momentum: 0.9 lr_policy: 'plateau' gamma: 0.5 plateau_winsize: 2 "
                     "max_iter: 100 random_seed: 1 "
                     "snapshot_prefix: '",
                     fs::temp_directory_path().string(), "/fuzz_", ::getpid(), "'"),
                 "seed", solver);
  io::parse_text(kTrainedNet, "seed", *solver.mutable_net_param());
  options.solver = solver_settings(solver, "seed");
  return options;
}

/// The state of a short run whose model stays on disk until the process ends.
struct TrainedState {
  std::string bytes, path;
  TrainedState() {
    Session session(small_training());
    session.step(3);
    path = session.snapshot();
    bytes = io::read_file(path, 1 << 20);
  }
  ~TrainedState() {
    for (const auto& entry : fs::directory_iterator(fs::temp_directory_path()))
      if (entry.path().filename().string().starts_with(cat("fuzz_", ::getpid()))) fs::remove(entry.path());
  }
};
const TrainedState& trained_state() {
  static const TrainedState state;
  return state;
}

/// Removed when the process ends.
struct TemporaryFile {
  const std::string path;
  explicit TemporaryFile(const std::string& name)
      : path(cat(fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path().string(), "/fuzz_",
                 ::getpid(), "_", name)) {}
  ~TemporaryFile() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

/// Without waiting for the disk, as io::write_file does.
void write(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

Seeds state_seeds() { return {trained_state().bytes}; }

void run_state(std::string_view bytes) {
  write(trained_state().path, bytes);
  resume_differences(read_snapshot(trained_state().path).state, {});
}

void run_restore(std::string_view bytes) {
  static std::unique_ptr<Session> session;  // goes on after a refusal; after a failure it is at its end
  write(trained_state().path, bytes);
  if (session == nullptr) session = std::make_unique<Session>(small_training());
  try {
    session->restore(trained_state().path);
    session->step(1);
  } catch (const Error&) {
    try {
      session->metrics();
    } catch (const Error&) {
      session.reset();
    }
    throw;
  }
}

/// A build without HDF5 refuses them all.
Seeds hdf5_seeds(bool state) {
  if (!io::has_hdf5()) return {"\x89HDF\r\n\x1a\n"};
  if (!state) return {io::hdf5_model(model_seed(), "seed")};
  caffe::SolverState whole;  // not from the file, which `state` and `restore` damage
  whole.ParseFromString(trained_state().bytes);
  caffe::SolverState plain = whole;
  plain.clear_banyan();
  return {io::hdf5_state(whole, "seed"), io::hdf5_state(plain, "seed")};
}
/// HDF5 does not open files that are in memory only, as those of BytesAsFile.
template <class Read>
void run_hdf5(std::string_view bytes, const Read& read) {
  static const TemporaryFile file("hdf5");
  write(file.path, bytes);
  read(file.path);
}
void run_hdf5_weights(std::string_view bytes) { run_hdf5(bytes, io::read_hdf5_model); }
void run_hdf5_state(std::string_view bytes) { run_hdf5(bytes, io::read_hdf5_state); }

/// Rows of images and labels, and of values that were appended, which are stored in chunks.
Seeds row_seeds() {
  if (!io::has_hdf5()) return {"\x89HDF\r\n\x1a\n"};
  const std::vector<float> images(5 * 2 * 3 * 4, 0.5F);
  const std::vector<std::uint8_t> labels{0, 1, 2, 3, 4};
  Seeds seeds;
  for (const bool chunked : {false, true}) {
    const auto file = io::Hdf5File::create_in_memory("seed");
    if (chunked) {
      for (int part = 0; part < 2; ++part) {
        file->append_rows("data", {2, 3, 4}, 5, images.data());
        file->append_rows("label", {}, 5, labels.data());
      }
    } else {
      file->write("data", {5, 2, 3, 4}, images.data());
      file->write("label", {5}, labels.data());
    }
    seeds.push_back(file->bytes());
  }
  return seeds;
}

/// As an HDF5Data layer reads them: all of a file at once or, as of one that is too large for that, by rows.
void run_rows(std::string_view bytes) {
  static const TemporaryFile list("list");
  const std::uint64_t in_memory = std::hash<std::string_view>()(bytes) % 2 == 0 ? 0 : 1 << 20;
  run_hdf5(bytes, [&](const std::string& path) {
    write(list.path, path);
    const auto source = data::open_hdf5_list(list.path, {"data", "label"}, in_memory);
    const data::RowWriter writer(source->rows());
    const auto reader = source->reader();
    data::Record record;
    for (const std::uint64_t position : {std::uint64_t{0}, source->size() / 2, source->size() - 1}) {
      data::read_record(*reader, position, record);
      write_item(writer, record, position);
    }
  });
}

std::string png_seed(int channels) {
  data::Image image{channels, 9, 12, {}};
  for (int i = 0; i < channels * 9 * 12; ++i) image.pixels.push_back(static_cast<std::uint8_t>(i * 7));
  const std::vector<std::uint8_t> bytes = data::encode_image(image, "png");
  return {bytes.begin(), bytes.end()};
}
std::string jpeg_seed(int channels) {
  data::Image image{channels, 33, 40, {}};
  for (int i = 0; i < channels * 33 * 40; ++i) image.pixels.push_back(static_cast<std::uint8_t>(i * i / 77));
  const std::vector<std::uint8_t> bytes = data::encode_image(image, "jpg");
  return {bytes.begin(), bytes.end()};
}

Seeds webp_seeds() {
  std::vector<std::uint8_t> pixels(3 * 33 * 40);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * i / 77);
  Seeds seeds;
  for (const bool lossless : {false, true}) {
    std::uint8_t* file = nullptr;
    const std::size_t size = lossless ? WebPEncodeLosslessBGR(pixels.data(), 40, 33, 120, &file)
                                      : WebPEncodeBGR(pixels.data(), 40, 33, 120, 80, &file);
    seeds.emplace_back(file, file + size);
    WebPFree(file);
  }
  return seeds;
}
Seeds bmp_seeds() {
  // 3 rows of 4 pixels: 24 bits each, and 8 bits each with a palette of two colours.
  std::string plain("BM\x5a\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\4\0\0\0\3\0\0\0\1\0\x18\0\0\0\0\0\x24\0\0\0",
                    38);
  plain.resize(54);
  for (int i = 0; i < 36; ++i) plain += static_cast<char>(i * 7);
  std::string palette("BM\x4a\0\0\0\0\0\0\0\x3e\0\0\0\x28\0\0\0\4\0\0\0\3\0\0\0\1\0\x08\0\0\0\0\0\x0c\0\0\0",
                      38);
  palette.resize(46);
  palette.append("\2\0\0\0\0\0\0\0\1\2\3\0\xff\xfe\xfd\0", 16);
  for (int i = 0; i < 12; ++i) palette += static_cast<char>(i % 2);
  return {plain, palette};
}

void decode_every_way(std::string_view bytes) {
  data::Image image;
  const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  for (const data::ColorMode mode : {data::ColorMode::as_stored, data::ColorMode::bgr, data::ColorMode::gray})
    for (const data::LeastSize least : {data::LeastSize{}, data::LeastSize{4, 4}})
      data::decode_image(begin, bytes.size(), mode, image, least);
  try {
    data::decode_image(begin, bytes.size(), data::ColorMode::labels, image);
  } catch (const Error&) {  // colours, or numbers above 255
  }
}

Seeds datum_seeds() {
  const std::uint8_t pixels[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  caffe::Datum floats;
  floats.set_channels(1);
  floats.set_height(2);
  floats.set_width(2);
  for (int i = 0; i < 4; ++i) floats.add_float_data(0.5F);
  return {data::raw_datum(3, 2, 2, pixels, 7), data::encoded_datum(png_seed(3), 1),
          floats.SerializeAsString()};
}

void run_datum(std::string_view bytes) {
  for (const data::ColorMode mode : {data::ColorMode::as_stored, data::ColorMode::bgr}) {
    data::Record record;
    data::read_datum(bytes, mode, record);
  }
}

/// Two objects, one of them difficult, in an image file and in raw pixels.
Seeds annotated_seeds() {
  const std::vector<std::uint8_t> pixels(3 * 6 * 8, 100);
  Seeds seeds;
  for (const std::string& image :
       {data::encoded_datum(png_seed(3), 1), data::raw_datum(3, 6, 8, pixels.data(), 7)}) {
    caffe::AnnotatedDatum record;
    record.mutable_datum()->ParseFromString(image);
    record.set_type(caffe::AnnotatedDatum::BBOX);
    for (int k = 0; k < 2; ++k) {
      caffe::AnnotationGroup& group = *record.add_annotation_group();
      group.set_group_label(k + 1);
      group.add_annotation()->set_instance_id(k);
      io::parse_text(cat("xmin: 0.1 ymin: 0.2 xmax: 0.", k + 5, " ymax: 1 difficult: ", k), "seed",
                     *group.mutable_annotation(0)->mutable_bbox());
    }
    seeds.push_back(record.SerializeAsString());
  }
  return seeds;
}

/// SSD's training: colours distorted, a part that holds an object, resized, mirrored.
data::AnnotatedWriter annotated_writer() {
  caffe::TransformationParameter transform;
  io::parse_text(
      "mirror: true mean_value: 104 resize_param { height: 10 width: 10 interp_mode: LINEAR "
      "interp_mode: AREA } distort_param { brightness_prob: 0.5 brightness_delta: 32 } noise_param { prob: "
      "0.5 gauss_blur: true hist_eq: true "
      "clahe: true jpeg: 30 erode: true saltpepper: true saltpepper_param { fraction: 0.1 value: 9 } } "
      "emit_constraint { emit_type: CENTER }",
      "seed", transform);
  caffe::AnnotatedDataParameter annotations;
  io::parse_text(
      "batch_sampler { max_sample: 1 max_trials: 5 sampler { min_scale: 0.3 } "
      "sample_constraint { min_jaccard_overlap: 0.1 } }",
      "seed", annotations);
  return {transform, annotations, {.layer = "fuzz"}};
}

void run_annotated(std::string_view bytes) {
  static const data::AnnotatedWriter writer = annotated_writer();
  data::Record record;
  record.stored = bytes;
  data::read_stored({data::ColorMode::as_stored, true}, record);
  for (const std::uint64_t item : {0, 1, 2}) write_item(writer, record, item);
}

/// Two people: of MPI, and of COCO with masks.
Seeds pose_seeds() {
  Seeds seeds;
  for (const int joints : {16, 17}) {
    const int channels = joints == 16 ? 4 : 6, height = 13, width = 4 * joints;
    std::vector<std::uint8_t> planes(static_cast<std::size_t>(channels * height * width), 100);
    const auto number = [&](int row, int at, float value) {
      std::memcpy(planes.data() + (3 * height + row) * width + 4 * at, &value, sizeof value);
    };
    number(1, 0, static_cast<float>(height));
    number(1, 1, static_cast<float>(width));
    planes[static_cast<std::size_t>((3 * height + 2) * width + 1)] = 1;
    number(3, 0, 30);
    number(3, 1, 6);
    number(4, 0, 0.5F);
    for (const int row : {5, 6, 7, 10, 11, 12})
      for (int k = 0; k < joints; ++k) number(row, k, static_cast<float>(k % 11 + row));
    seeds.push_back(data::raw_datum(channels, height, width, planes.data(), 0));
  }
  return seeds;
}

data::PoseWriter pose_writer(bool limbs, bool training) {
  caffe::CPMTransformationParameter settings;
  io::parse_text(limbs ? "num_parts: 56 np_in_lmdb: 17" : "num_parts: 14", "seed", settings);
  settings.set_crop_size_x(24);
  settings.set_crop_size_y(20);
  return {settings, training, {}};
}

void run_poses(std::string_view bytes) {
  static const data::PoseWriter single = pose_writer(false, true), several = pose_writer(true, true),
                                whole = pose_writer(true, false);
  data::Record record;
  record.stored = bytes;
  data::read_stored({data::ColorMode::as_stored, false}, record);
  if (record.channels < 5) return write_item(single, record, 0);
  write_item(several, record, 0);
  write_item(whole, record, 0);
}

/// Pixels, and image files in colour and gray.
Seeds document_seeds() {
  Seeds seeds;
  for (const char* encoding : {"none", "png", "jpg"}) {
    caffe::DocumentDatum record;
    caffe::DocumentImage& image = *record.mutable_image();
    image.set_channels(encoding[0] == 'p' ? 3 : 1);
    image.set_height(6);
    image.set_width(8);
    image.set_data(encoding[0] == 'n'   ? std::string(48, 'p')
                   : encoding[0] == 'p' ? png_seed(3)
                                        : jpeg_seed(1));
    if (encoding[0] != 'n') image.set_encoding(encoding);
    record.set_collection(3);
    record.set_decade(191.5F);
    seeds.push_back(record.SerializeAsString());
  }
  return seeds;
}

data::ImageTransformWriter document_writer() {
  caffe::ImageTransformationParameter transforms;
  io::parse_text(
      "params { crop_params { size_perc: 0.5 size_perc: 1 } } params { resize_params { size: 9 } "
      "resize_params { width: 5 height: 12 interpolation: INTER_CUBIC } } params { reflect_params { "
      "horz_reflect_prob: 0.5 vert_reflect_prob: 0.5 } } params { linear_params { scale: 0.5 shift: 1 } }",
      "seed", transforms);
  return {transforms, 2, 0, "fuzz"};
}

void run_documents(std::string_view bytes) {
  static const data::ImageTransformWriter writer = document_writer();
  caffe::DocDataParameter settings;
  for (const char* name : {"collection", "decade"}) settings.add_label_names(name);
  data::DocumentDecoder decode(settings);
  data::Record record;
  record.stored = bytes;
  decode(record);
  for (const std::uint64_t item : {0, 1, 2}) {
    record.batch = item;
    write_item(writer, record, item);
  }
}

std::string gzipped(const std::string& bytes) {
  const BytesAsFile file("");
  const gzFile out = ::gzopen(file.path().c_str(), "wb");
  ::gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size()));
  ::gzclose(out);
  return io::read_file(file.path(), 1 << 20);
}

Seeds idx_seeds() {
  const std::string images = std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x03\0\0\0\x02", 16) + "abcdefghijkl";
  const std::string labels = std::string("\0\0\x08\x01\0\0\0\x04\x01\x02\x03\x04", 12);
  return {images, labels, gzipped(images), gzipped(labels)};
}

void run_idx(std::string_view bytes) {
  const BytesAsFile file(bytes);
  try {
    data::read_idx_images(file.path());
  } catch (const Error&) {  // may be labels
    data::read_idx_labels(file.path());
  }
}

Seeds list_seeds() {
  return {"a.jpg 1\nfolder/b c.png 2\n\n/x +3\r\n",
          "x 0",
          "a.jpg 1 2\n\"b c.png\" -3 4\n",
          "# 0\na.png\n2\n3 1 0 2 1 0\n7 -2 0 9.5 9 1\n# 1 b.png 0",
          "a.png b.png -1 0 4 5\n",
          "a.png 1,2.5,-3,4 1,2,3,4,0 0\nb.png 5,6,7,8 - 2\n",
          "# 0 a.png 3 8 9 1 2 0 0 0 4 5 1 1 1 2 2"};
}
void run_list(std::string_view bytes) {
  const BytesAsFile file(bytes);
  data::SegmentationOptions windows;
  windows.windows = true;
  caffe::HeatmapDataParameter joints;
  joints.set_source(file.path());
  joints.set_sample_per_cluster(true);
  try {
    data::open_heatmap_list(joints, {});
  } catch (const Error&) {
  }
  try {
    data::open_roi_list(file.path(), "");
  } catch (const Error&) {  // another kind of list
  }
  try {
    data::open_segmentation_list(file.path(), windows);
  } catch (const Error&) {
  }
  for (const bool difficult : {false, true}) {
    try {
      data::read_box_list(file.path(), {.root_folder = "", .difficult = difficult, .by_aspect = true});
    } catch (const Error&) {
    }
  }
  try {
    data::read_image_list(file.path(), 2);
  } catch (const Error&) {  // lines with one label
  }
  data::read_class_list(file.path());
}

std::string clip_seed(int channels, std::size_t each) {
  const std::array<std::int32_t, 5> sizes{1, channels, 2, 3, 2};
  std::string bytes(sizeof sizes + static_cast<std::size_t>(channels) * 12 * each, 'c');
  std::memcpy(bytes.data(), sizes.data(), sizeof sizes);
  return bytes;
}
Seeds clip_seeds() { return {clip_seed(4, 1), clip_seed(3, 4), "1 9 20\n25", "0"}; }
/// A clip with labels or floats for its pixels, and the frames with which shots begin.
void run_clip(std::string_view bytes) {
  const BytesAsFile file(bytes);
  const BytesAsFile list("\"" + file.path() + "\" 25\n"), clips("\"" + file.path() + "\"");
  for (const data::LabelledClipOptions& options :
       {data::LabelledClipOptions{}, data::LabelledClipOptions{"", true, 2}}) {
    try {
      data::Record record;
      const auto source = data::open_labelled_clips(clips.path(), options);
      const auto reader = source->reader();
      reader->read(0, record);
      const data::LabelledClipWriter writer({}, {options.truth_channels, 1, {}, true}, true, {}, "fuzz");
      data::ItemPlace place;
      std::vector<std::vector<float>> outputs;
      for (const Shape& shape : writer.shapes(record, 0)) {
        outputs.emplace_back(static_cast<std::size_t>(shape.count()));
        place.outputs.push_back(outputs.back().data());
      }
      writer.write(record, 0, place);
    } catch (const Error&) {
    }
  }
  std::vector<data::Video> videos(1);
  videos[0].frames = 25;
  data::read_shot_list(list.path(), 1, true, videos);
}

Seeds frcnn_seeds() {
  return {
      "{ \"scales\": \"480, 600\", // two\n\"max_size\": 900, \"pixel_means\": \"1.5,\n2, 3\", \"anchors\": "
      "\"-15, -16, 15, 16\", \"n_classes\": \"6\", \"data_jitter\": \"-1\" }"};
}
/// A net whose FrcnnRoiData names the file.
void run_frcnn(std::string_view bytes) {
  const BytesAsFile file(bytes);
  caffe::NetParameter net;
  for (const char* type : {"FrcnnRoiData", "FrcnnAnchorTarget", "FrcnnProposal", "FrcnnProposalTarget"})
    net.add_layer()->set_type(type);
  net.mutable_layer(0)->mutable_window_data_param()->set_config(file.path());
  io::upgrade_net(net, "fuzz");
}

Seeds metrics_seeds() {
  std::string lines;
  for (const auto& [kind, iteration] :
       {std::pair{"start", 0}, {"train", 0}, {"snapshot", 5}, {"train", 5}, {"end", 6}})
    lines += cat("{\"kind\": \"", kind, "\", \"iteration\": ", iteration, ", \"time\": 1.5}\n");
  return {lines, lines.substr(0, lines.size() - 9)};
}
void run_metrics(std::string_view bytes) {
  for (const auto existing :
       {metrics::Existing::resume, metrics::Existing::replace, metrics::Existing::refuse}) {
    const BytesAsFile file(bytes);
    metrics::JsonLines lines(file.path(), 5, existing);
    lines.write({5, 1, metrics::Warning{"a", "b"}});
  }
}

// Every kind of line, with every kind of value.
const char* const kMetricsLines =
    R"({"kind": "start", "iteration": 0, "time": 1.5, "format": 1, "version": "0", "max_iter": 9, "seed": "7", "nets": [{"name": "train", "text": "x"}], "devices": [{"name": "cpu:0", "batch": 4, "cores": [0, 1]}], "tree": {"parents": [-1, 0], "direct": true, "links": [{"from": 0, "to": 1, "class": "MEM", "bytes_per_second": 1e9}], "classes": [["", "MEM"], ["MEM", ""]]}, "layers": [{"name": "a", "outputs": [{"name": "a", "shape": [4, 3]}], "blobs": [[3, 2], []], "in_place": false, "output_bytes": 48}], "memory": {"parameters": 24}, "plan": {"steps": [{"work": "forward", "layer": 0}], "backward": 1, "blocks": [{"name": "a", "gradient": false, "offset": 0, "bytes": 48, "spans": [[0, 1]]}]}}
{"kind": "train", "iteration": 1, "time": 2, "loss": 0.5, "rate": 0.1, "outputs": [{"name": "a", "values": [1, "nan"], "weight": 1}], "devices": [{"name": "cpu:0", "memory": {"in_use": 5}, "waiting_for_data": 0.1, "sampled": 0, "milliseconds": {"compute": 1, "iteration": 1}}]}
{"kind": "test", "iteration": 2, "time": 3, "net": 0, "name": "test0", "loss": "-inf", "outputs": []}
{"kind": "parameters", "iteration": 1, "time": 2, "parameters": [{"name": "a.weight", "norm": 1}]}
{"kind": "layers", "iteration": 1, "time": 2, "sampled": 1, "layers": [{"name": "a", "forward": 1, "backward": 2}]}
{"kind": "snapshot", "iteration": 2, "time": 3, "model": "m", "bytes": 9}
{"kind": "warning", "iteration": 2, "time": 3, "text": "t", "advice": "a"}
{"kind": "end", "iteration": 2, "time": 4, "reason": "stopped"}
{"kind": "start", "iteration": 2, "time": 5, "format": 1, "version": "0", "max_iter": 9, "resumed_from": "s"}
)";
Seeds report_seeds() { return {kMetricsLines}; }
void run_report(std::string_view bytes) {
  std::istringstream lines{std::string(bytes)};
  report::page_of({report::read_run(lines, "run")});
}

Seeds event_seeds() {
  return {metrics::framed("brain.Event:2") + metrics::framed("") + metrics::framed("x")};
}
void run_events(std::string_view bytes) {
  const BytesAsFile file(bytes);
  metrics::read_frames(file.path(), [](const std::string& record) { return record != "y"; });
}

Seeds tree_seeds() { return {"1 0\n2 0 # a comment\n3 2\n", "-1 0 0 1", "1 0\n2 1\n3 2\n"}; }
void run_tree(std::string_view bytes) { parallel::parse_tree(std::string(bytes), "tree", 4); }

Seeds simulation_seeds() {
  return {
      R"(level { devices: 4 link: "NV2" gigabytes_per_s: 40 latency_us: 5 } level { devices: 8 link: "SYS" gigabytes_per_s: 8 }
devices: 1 devices: 8 layer { name: "a" forward_ms: 1 backward_ms: 2.5 parameters: 1000000 } update_gigabytes_per_s: 500)"};
}
void run_simulation(std::string_view bytes) { describe_simulation(BytesAsFile(bytes).path(), false); }

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> all{
      {"net_text", "a net's text", net_seeds, run_net_text},
      {"net_binary", "a net in binary form, of any age", binary_nets, run_binary_net},
      {"solver", "a solver's text and settings", solver_seeds, run_solver},
      {"check", "nets and solvers through `trainer check`", small_nets, run_check},
      {"weights", "a caffemodel", weight_seeds, run_weights},
      {"safetensors", "weights as safetensors", [] { return array_seeds(io::write_safetensors); },
       run_arrays<io::parse_safetensors>},
      {"npz", "weights as npz", [] { return array_seeds(io::write_npz); }, run_arrays<io::parse_npz>},
      {"state", "a solverstate", state_seeds, run_state},
      {"restore", "a solverstate, restored into a session that goes on training", state_seeds, run_restore},
      {"hdf5_weights", "weights in HDF5", [] { return hdf5_seeds(false); }, run_hdf5_weights, true},
      {"hdf5_state", "a solver's state in HDF5", [] { return hdf5_seeds(true); }, run_hdf5_state, true},
      {"hdf5_data", "rows in HDF5, as HDF5Data reads them", row_seeds, run_rows, true},
      {"datum", "a record of a database", datum_seeds, run_datum},
      {"annotated", "a record with boxes, as AnnotatedData makes an item of it", annotated_seeds,
       run_annotated},
      {"poses", "a record of people with joints, as CPMData makes an item of it", pose_seeds, run_poses},
      {"documents", "a record of a document, as DocData makes an item of it", document_seeds, run_documents},
      {"jpeg", "a JPEG file",
       [] {
         return Seeds{jpeg_seed(1), jpeg_seed(3)};
       },
       decode_every_way},
      {"png", "a PNG file",
       [] {
         return Seeds{png_seed(1), png_seed(3)};
       },
       decode_every_way},
      {"webp", "a WebP file", webp_seeds, decode_every_way},
      {"bmp", "a BMP file", bmp_seeds, decode_every_way},
      {"idx", "MNIST's files, plain and compressed", idx_seeds, run_idx},
      {"image_list", "a list of images", list_seeds, run_list},
      {"clip", "a clip with labels, or the shots of a video", clip_seeds, run_clip},
      {"frcnn", "the settings of a Faster R-CNN in C++", frcnn_seeds, run_frcnn},
      {"metrics", "the lines of a run's metrics, which another run continues", metrics_seeds, run_metrics},
      {"report", "the same, as `trainer report` reads them", report_seeds, run_report},
      {"events", "TensorBoard's event files, which it continues too", event_seeds, run_events},
      {"tree", "a tree file", tree_seeds, run_tree},
      {"simulation", "the description of a machine", simulation_seeds, run_simulation},
  };
  return all;
}

}  // namespace banyan::fuzz
