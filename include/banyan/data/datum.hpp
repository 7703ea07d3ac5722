// Caffe's Datum records, read without copying the pixels (protobuf would copy them).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/data/record.hpp"

namespace banyan::data {

/// Fields of a serialized caffe.Datum; `data` points into the serialized bytes.
struct DatumView {
  std::int32_t channels = 0, height = 0, width = 0, label = 0;
  std::vector<float> labels;  ///< instead, where there are several, as branches have them
  bool encoded = false;
  std::string_view data;
  std::vector<float> float_data;
};

/// Throws bad_input if the bytes are not a protobuf message with Datum's fields.
void parse_datum(std::string_view bytes, DatumView& datum);

/// Parses and decodes. Raw pixels and float_data must have channels * height * width elements. `mode` applies
/// only to encoded images, as in Caffe. Pixels of raw records stay in `bytes`.
void read_datum(std::string_view bytes, ColorMode mode, Record& record);

/// What the records of a database are.
struct RecordFormat {
  ColorMode color = ColorMode::as_stored;
  bool annotated = false;  ///< SSD's AnnotatedDatum or YOLO's Datum with boxes, else Datum
};
/// Decodes record.stored; the objects too, if it is annotated.
void read_stored(const RecordFormat& format, Record& record);

/// A serialized Datum of 8-bit C x H x W pixels.
std::string raw_datum(int channels, int height, int width, const std::uint8_t* pixels, std::int32_t label);
/// A serialized Datum that holds an image file.
std::string encoded_datum(std::string_view file, std::int32_t label);

}  // namespace banyan::data
