// libpng reports errors by longjmp. So everything with a destructor is in the callers' structs, outside the
// functions that call setjmp, which have only plain values.
#include "data/png.hpp"

#include <png.h>

#include <csetjmp>
#include <cstring>
#include <string>

#include "banyan/base/error.hpp"
#include "data/jpeg.hpp"

namespace banyan::data {

namespace {

struct Reading {
  const std::uint8_t* at;
  std::size_t left;
  char problem[160] = "";
  std::vector<png_bytep> rows;
  Image* image = nullptr;
  bool wide = false;  // two bytes for each number, the upper one first
};

struct Writing {
  const Image* image;
  std::vector<std::uint8_t> bytes;
  char problem[160] = "";
};

template <class Job>
void on_error(png_structp png, png_const_charp message) {
  auto* job = static_cast<Job*>(png_get_error_ptr(png));
  std::strncpy(job->problem, message, sizeof job->problem - 1);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep to, png_size_t count) {
  auto* job = static_cast<Reading*>(png_get_io_ptr(png));
  if (count > job->left) png_error(png, "the file ends too early");
  std::memcpy(to, job->at, count);
  job->at += count;
  job->left -= count;
}

void write_bytes(png_structp png, png_bytep from, png_size_t count) {
  auto* job = static_cast<Writing*>(png_get_io_ptr(png));
  job->bytes.insert(job->bytes.end(), from, from + count);
}

void flush_bytes(png_structp) {}

/// Asks libpng for 8-bit gray or B, G, R without alpha, whatever is stored; for labels as they are stored, in
/// bytes or 16 bits. Converting colour to gray is left to the caller.
void normalize(png_structp png, png_infop info, ColorMode mode) {
  const png_byte color = png_get_color_type(png, info);
  if (mode == ColorMode::labels) {
    png_set_packing(png);
    png_set_strip_alpha(png);
    return;
  }
  if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (color == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png, info) < 8) png_set_expand_gray_1_2_4_to_8(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  const bool stored_gray = (color & PNG_COLOR_MASK_COLOR) == 0;
  if (stored_gray && mode == ColorMode::bgr) png_set_gray_to_rgb(png);
  png_set_bgr(png);
}

/// False on an error, which `job.problem` holds.
bool read_rows(png_structp png, png_infop info, ColorMode mode, Reading& job) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_read_fn(png, &job, read_bytes);
  png_set_user_limits(png, 1 << 16, 1 << 16);
  png_read_info(png, info);
  normalize(png, info, mode);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  Image& image = *job.image;
  image.channels = png_get_channels(png, info);
  image.height = static_cast<int>(png_get_image_height(png, info));
  image.width = static_cast<int>(png_get_image_width(png, info));
  job.wide = png_get_bit_depth(png, info) == 16;
  const std::size_t pitch = png_get_rowbytes(png, info);
  image.pixels.resize(pitch * static_cast<std::size_t>(image.height));
  job.rows.resize(image.height);
  for (std::size_t y = 0; y < job.rows.size(); ++y) job.rows[y] = image.pixels.data() + y * pitch;
  png_read_image(png, job.rows.data());
  png_read_end(png, nullptr);
  return true;
}

void keep_lower_bytes(Image& image) {
  const std::size_t count = image.pixels.size() / 2;
  for (std::size_t i = 0; i < count; ++i) {
    if (image.pixels[2 * i] != 0)
      bad_input("a pixel has the label ", image.pixels[2 * i] * 256 + image.pixels[2 * i + 1],
                "; labels of pixels must be at most 255");
    image.pixels[i] = image.pixels[2 * i + 1];
  }
  image.pixels.resize(count);
}

bool write_rows(png_structp png, png_infop info, Writing& job) {
  if (setjmp(png_jmpbuf(png))) return false;
  const Image& image = *job.image;
  png_set_write_fn(png, &job, write_bytes, flush_bytes);
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height), 8,
               image.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  png_set_bgr(png);
  const std::size_t pitch = static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.channels);
  for (int y = 0; y < image.height; ++y)
    png_write_row(png, image.pixels.data() + static_cast<std::size_t>(y) * pitch);
  png_write_end(png, info);
  return true;
}

}  // namespace

void decode_png(const std::uint8_t* bytes, std::size_t size, ColorMode mode, Image& image) {
  Reading job;
  job.at = bytes;
  job.left = size;
  job.image = &image;
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, on_error<Reading>, on_warning);
  png_infop info = png ? png_create_info_struct(png) : nullptr;
  const bool read = info && read_rows(png, info, mode, job);
  png_destroy_read_struct(&png, &info, nullptr);
  if (!read) bad_input("damaged PNG image: ", job.problem);
  if (job.wide) keep_lower_bytes(image);
  if (mode == ColorMode::gray && image.channels == 3) gray_from_bgr(image);
}

std::vector<std::uint8_t> encode_png(const Image& image) {
  Writing job;
  job.image = &image;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &job, on_error<Writing>, on_warning);
  png_infop info = png ? png_create_info_struct(png) : nullptr;
  const bool written = info && write_rows(png, info, job);
  png_destroy_write_struct(&png, &info);
  if (!written) runtime_failure("cannot encode a PNG image: ", job.problem);
  return std::move(job.bytes);
}

}  // namespace banyan::data
