#include "data/jpeg.hpp"

#include <turbojpeg.h>

#include <algorithm>
#include <memory>
#include <string>

#include "banyan/base/error.hpp"

namespace banyan::data {

namespace {

struct Closer {
  void operator()(void* handle) const { tjDestroy(handle); }
};
using Handle = std::unique_ptr<void, Closer>;

/// One decompressor per thread: it keeps its tables and memory from image to image, except after an error:
/// the library does not always leave its state usable for another image.
Handle& decompressor() {
  static thread_local Handle handle;
  if (!handle) handle.reset(tjInitDecompress());
  if (!handle) runtime_failure("cannot start libjpeg-turbo: ", tjGetErrorStr2(nullptr));
  return handle;
}

[[noreturn]] void broken(const std::string& problem) {
  decompressor().reset();
  bad_input("damaged JPEG image: ", problem);
}

constexpr std::int64_t kMostPixels = std::int64_t{1} << 28;
/// A few damaged bytes can claim any size. With Huffman codes a block of 64 pixels takes a bit at least. With
/// arithmetic coding a plain image takes some 200 bytes whatever its size: those are read up to kFewPixels.
constexpr std::int64_t kMostPixelsPerByte = 1024, kFewPixels = std::int64_t{1} << 22;

/// A decoder's warning that means lost pixels. Bytes between two markers are harmless and common in
/// photographs.
bool pixels_lost(const std::string& warning) { return warning.find("extraneous bytes") == std::string::npos; }

/// Factors by which a JPEG's size can be divided while decoding. Sizes are rounded up, as in the library.
int divisor_for(int height, int width, LeastSize least) {
  if (least.height < 1 || least.width < 1) return 1;
  int divisor = 1;
  while (divisor < 8 && height / (2 * divisor) >= least.height && width / (2 * divisor) >= least.width)
    divisor *= 2;
  return divisor;
}

/// Adobe stores CMYK inverted: 255 is no ink.
void bgr_from_cmyk(Image& image) {
  const std::size_t count = image.pixels.size() / 4;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* p = &image.pixels[4 * i];
    const int c = p[0], m = p[1], y = p[2], k = p[3];
    std::uint8_t* q = &image.pixels[3 * i];
    q[0] = static_cast<std::uint8_t>((y * k + 127) / 255);
    q[1] = static_cast<std::uint8_t>((m * k + 127) / 255);
    q[2] = static_cast<std::uint8_t>((c * k + 127) / 255);
  }
  image.pixels.resize(count * 3);
  image.channels = 3;
}

}  // namespace

void decode_jpeg(const std::uint8_t* bytes, std::size_t size, ColorMode mode, Image& image, LeastSize least) {
  tjhandle handle = decompressor().get();
  int width = 0, height = 0, subsampling = 0, colorspace = 0;
  if (tjDecompressHeader3(handle, bytes, static_cast<unsigned long>(size), &width, &height, &subsampling,
                          &colorspace) != 0 &&
      (tjGetErrorCode(handle) == TJERR_FATAL || width < 1 || height < 1))
    broken(tjGetErrorStr2(handle));
  const std::int64_t pixels = std::int64_t{width} * height;
  if (width < 1 || height < 1 || pixels > kMostPixels ||
      pixels > std::max(kFewPixels, kMostPixelsPerByte * static_cast<std::int64_t>(size)))
    broken(cat("impossible size of ", width, " x ", height, " pixels in ", size, " bytes"));
  const int divisor = divisor_for(height, width, least);
  height = (height + divisor - 1) / divisor;
  width = (width + divisor - 1) / divisor;
  const bool cmyk = colorspace == TJCS_CMYK || colorspace == TJCS_YCCK;
  // The luma of an RGB JPEG is not stored: it is made from the decoded colours.
  const bool gray = mode == ColorMode::gray || (mode != ColorMode::bgr && colorspace == TJCS_GRAY);
  const bool direct_gray = gray && !cmyk && colorspace != TJCS_RGB;
  const TJPF format = cmyk ? TJPF_CMYK : direct_gray ? TJPF_GRAY : TJPF_BGR;
  image.channels = cmyk ? 4 : direct_gray ? 1 : 3;
  image.height = height;
  image.width = width;
  image.pixels.resize(static_cast<std::size_t>(image.channels) * static_cast<std::size_t>(height) *
                      static_cast<std::size_t>(width));
  if (tjDecompress2(handle, bytes, static_cast<unsigned long>(size), image.pixels.data(), width, 0, height,
                    format, 0) != 0) {
    const std::string problem = tjGetErrorStr2(handle);
    if (tjGetErrorCode(handle) == TJERR_FATAL || pixels_lost(problem)) broken(problem);
  }
  if (cmyk) bgr_from_cmyk(image);
  if (gray && image.channels == 3) gray_from_bgr(image);
}

std::vector<std::uint8_t> encode_jpeg(const Image& image, const JpegSettings& settings) {
  const Handle handle(tjInitCompress());
  if (!handle) runtime_failure("cannot start libjpeg-turbo: ", tjGetErrorStr2(nullptr));
  const bool gray = image.channels == 1;
  unsigned char* out = nullptr;
  unsigned long size = 0;
  const int failed = tjCompress2(handle.get(), image.pixels.data(), image.width, 0, image.height,
                                 gray ? TJPF_GRAY : TJPF_BGR, &out, &size, gray ? TJSAMP_GRAY : TJSAMP_420,
                                 settings.quality, settings.accurate ? TJFLAG_ACCURATEDCT : 0);
  const std::unique_ptr<unsigned char, void (*)(unsigned char*)> owner(out, tjFree);
  if (failed != 0) runtime_failure("cannot encode a JPEG image: ", tjGetErrorStr2(handle.get()));
  return {out, out + size};
}

}  // namespace banyan::data
