// RecordSource: a data set with random access by position, and readers that walk it. One source is shared by
// all devices of the process; every thread reads through its own reader.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/box.hpp"
#include "banyan/data/image_codec.hpp"

namespace banyan::data {

/// An object in an image.
struct ObjectBox {
  Box box;  ///< fractions of the image
  int label = 0, instance = 0;
  bool difficult = false;
};

/// One decoded item: `channels` x `height` x `width` pixels, either 8-bit or float, and a label. The pointers
/// are valid until the reader's next read and as long as the reader lives.
struct Record {
  int channels = 0, height = 0, width = 0;
  const std::uint8_t* bytes = nullptr;  ///< 8-bit pixels, or nullptr
  const float* floats = nullptr;        ///< float pixels where bytes is nullptr
  bool interleaved = false;             ///< H x W x C in memory, otherwise C x H x W
  std::int32_t label = 0;
  std::vector<float> labels;    ///< instead, where an item has several
  std::array<int, 4> window{};  ///< of the image, where only one is wanted: x1, y1, x2, y2, all inside
  bool encoded = false;         ///< was stored as an image file
  std::vector<ObjectBox> objects;
  bool typed_objects = false;  ///< the record says that its annotations are boxes

  std::uint64_t item = 0;       ///< number of the item that is made of it; set before it is read
  std::uint64_t batch = 0;      ///< Share::batch of the item
  std::string_view stored;      ///< as the source holds it: a Datum or an image file
  Image image;                  ///< holds decoded pixels
  Image scratch;                ///< holds pixels before a resize
  Image label_image;            ///< a label for each pixel, where there is one
  std::vector<float> values;    ///< holds float pixels
  std::vector<char> file;       ///< holds `stored` if the source does not have it in memory
  std::vector<double> numbers;  ///< what is no image: the values of all outputs, one after the other

  /// The item is what `image` holds.
  void show_image() {
    channels = image.channels;
    height = image.height;
    width = image.width;
    bytes = image.pixels.data();
    floats = nullptr;
    interleaved = encoded = true;
  }
};

class RecordReader {
 public:
  virtual ~RecordReader() = default;
  /// Sets `stored` to record `position` in [0, size); its bytes are valid until the next fetch. For an LMDB
  /// they are in its map, and have not been read. Throws bad_input; the message does not name the record.
  virtual void fetch(std::uint64_t position, Record& record) = 0;
  /// Turns `stored` into pixels. Throws bad_input for a record that cannot be decoded; the message does not
  /// name it.
  virtual void decode(Record& record) = 0;
  void read(std::uint64_t position, Record& record) {
    fetch(position, record);
    decode(record);
  }
  /// The key of the record fetched last, valid until the next fetch; empty where records have none.
  virtual std::string_view key() const { return {}; }
  /// Source, number (from 0) and key or path of record `position`, for messages.
  virtual std::string describe(std::uint64_t position) = 0;
};

class RecordSource {
 public:
  virtual ~RecordSource() = default;
  virtual std::uint64_t size() const = 0;
  /// Records of each file, where a shuffled order should stay within one file for some time; else empty.
  virtual std::vector<std::uint64_t> parts() const { return {}; }
  /// The user's name for it: `LMDB "path"`.
  virtual std::string name() const = 0;
  virtual std::unique_ptr<RecordReader> reader() const = 0;
};

/// Fetches; error messages begin with the record's description.
void fetch_record(RecordReader& reader, std::uint64_t position, Record& record);
/// Fetches and decodes for the item with this number; error messages begin in the same way.
void read_record(RecordReader& reader, std::uint64_t position, Record& record, std::uint64_t item = 0);

}  // namespace banyan::data
