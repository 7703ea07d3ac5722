// convert_imageset ROOT/ LIST DB: image files to an LMDB, with the flags, keys and records of Caffe's tool of
// that name.
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "banyan/data/datum.hpp"
#include "banyan/data/image_list.hpp"
#include "banyan/data/record_writer.hpp"
#include "banyan/ops/random.hpp"
#include "common/tool.hpp"

DEFINE_bool(gray, false, "store gray images");
DEFINE_bool(shuffle, false, "shuffle the list first");
DEFINE_uint64(seed, 1, "seed of --shuffle");
DEFINE_string(backend, "lmdb", "type of database: lmdb or leveldb");
DEFINE_int32(resize_width, 0, "resize to this width; 0: unchanged");
DEFINE_int32(resize_height, 0, "resize to this height; 0: unchanged");
DEFINE_bool(check_size, false, "fail unless all images have the same size");
DEFINE_bool(encoded, false, "store image files instead of pixels");
DEFINE_string(encode_type, "",
              "store image files of this type (jpg, png); otherwise as the file's extension says");
DEFINE_bool(overwrite, false, "replace DB if it exists");

namespace {

using namespace banyan;

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string extension_of(const std::string& path) {
  const std::size_t dot = path.find_last_of("./");
  return dot == std::string::npos || path[dot] == '/' ? "" : lower(path.substr(dot + 1));
}

bool same_type(const std::string& a, const std::string& b) {
  const auto jpeg = [](const std::string& type) { return type == "jpg" || type == "jpeg"; };
  return a == b || (jpeg(a) && jpeg(b));
}

std::vector<std::uint8_t> read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) bad_input("cannot open the file: ", std::strerror(errno));
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string planar_datum(const data::Image& image, std::int32_t label) {
  const std::size_t plane = static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width);
  const auto channels = static_cast<std::size_t>(image.channels);
  std::vector<std::uint8_t> planar(image.pixels.size());
  for (std::size_t c = 0; c < channels; ++c)
    for (std::size_t i = 0; i < plane; ++i) planar[c * plane + i] = image.pixels[i * channels + c];
  return data::raw_datum(image.channels, image.height, image.width, planar.data(), label);
}

struct Converted {
  std::string datum;
  int height, width;
};

Converted convert_one(const std::string& path, std::int32_t label) {
  const std::vector<std::uint8_t> bytes = read_bytes(path);
  data::Image image, resized;
  data::decode_image(bytes.data(), bytes.size(), FLAGS_gray ? data::ColorMode::gray : data::ColorMode::bgr,
                     image);
  const bool resize = FLAGS_resize_width > 0 && FLAGS_resize_height > 0;
  if (resize) {
    data::resize_bilinear(image, FLAGS_resize_height, FLAGS_resize_width, resized);
    std::swap(image, resized);
  }
  const bool encode = FLAGS_encoded || !FLAGS_encode_type.empty();
  if (!encode) return {planar_datum(image, label), image.height, image.width};
  const std::string type = FLAGS_encode_type.empty() ? extension_of(path) : lower(FLAGS_encode_type);
  if (type.empty()) bad_input("the file name has no extension that says how to encode it (--encode_type)");
  // The file's bytes as they are, if they are what is requested.
  data::Image stored;
  data::decode_image(bytes.data(), bytes.size(), data::ColorMode::as_stored, stored);
  if (!resize && (stored.channels == 1) == FLAGS_gray && same_type(type, extension_of(path)))
    return {data::encoded_datum({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, label),
            image.height, image.width};
  const std::vector<std::uint8_t> file = data::encode_image(image, type);
  return {data::encoded_datum({reinterpret_cast<const char*>(file.data()), file.size()}, label), image.height,
          image.width};
}

void check_flags() {
  data::check_backend(FLAGS_backend);
  if (FLAGS_resize_width < 0 || FLAGS_resize_height < 0)
    bad_input("--resize_width and --resize_height must not be negative");
  if ((FLAGS_resize_width > 0) != (FLAGS_resize_height > 0))
    bad_input("--resize_width and --resize_height must be given together");
  const std::string type = lower(FLAGS_encode_type);
  if (!type.empty() && !same_type(type, "jpg") && type != "png")
    bad_input("--encode_type=", FLAGS_encode_type, ": only jpg and png are supported");
}

std::vector<data::ListedImage> read_list(const std::string& path) {
  std::vector<data::ListedImage> list = data::read_image_list(path);
  if (FLAGS_shuffle) {
    LOG(INFO) << "Shuffling data";
    for (std::size_t i = list.size(); i > 1; --i) {
      const ops::Philox4 draw = ops::philox(FLAGS_seed, 0, i);
      std::swap(list[i - 1], list[(static_cast<std::uint64_t>(draw.v[1]) << 32 | draw.v[0]) % i]);
    }
  }
  LOG(INFO) << "A total of " << list.size() << " images.";
  return list;
}

void convert(const std::vector<std::string>& arguments) {
  check_flags();
  const std::vector<data::ListedImage> list = read_list(arguments[1]);
  const auto writer = data::make_record_writer(FLAGS_backend, arguments[2], FLAGS_overwrite);
  tools::Progress progress("Converting", list.size());
  int height = 0, width = 0;
  for (std::size_t i = 0; i < list.size(); ++i, progress.step()) {
    const std::string path = arguments[0] + list[i].path;
    Converted converted;
    try {
      converted = convert_one(path, list[i].label);
    } catch (const Error& error) {
      // As in Caffe, an image that cannot be read is left out and its number stays unused.
      LOG(ERROR) << "Left out " << banyan::quoted(path) << ": " << error.message();
      continue;
    }
    if (FLAGS_check_size && writer->records() > 0 && (converted.height != height || converted.width != width))
      bad_input(banyan::quoted(path), " is ", converted.height, " x ", converted.width,
                ", but the first image is ", height, " x ", width, " (--check_size)");
    if (writer->records() == 0) {
      height = converted.height;
      width = converted.width;
    }
    writer->put(tools::eight_digits(i) + "_" + list[i].path, std::move(converted.datum));
  }
  if (writer->records() == 0)
    bad_input("none of the ", list.size(), " images of ", banyan::quoted(arguments[1]), " could be read");
  const std::uint64_t written = writer->records();
  writer->close();
  LOG(INFO) << "Processed " << written << " files.";
  if (written < list.size())
    LOG(ERROR) << list.size() - written << " of " << list.size() << " images were left out";
}

}  // namespace

int main(int argc, char** argv) {
  return banyan::tools::run_tool(
      argc, argv,
      {"convert_imageset", "ROOT/ LIST DB",
       "Converts the images that the file LIST names (one \"path label\" per line; ROOT/ is prepended to "
       "each "
       "path as it is)\n"
       "to a folder DB (LMDB, or LevelDB) that Data layers read. Images are JPEG, PNG, BMP or (still) WebP "
       "files.",
       "convert_imageset --shuffle --encoded images/ train.txt train_lmdb", 3, 3, convert});
}
