// The interface between libbanyan and what calls cpp-httplib, a separate library (libbanyan_httplib.so) that
// is loaded with the first server. The library exports one C function, `banyan_http_backend`, which returns
// this table.
#pragma once

#include <memory>
#include <string>

#include "banyan/live/page_server.hpp"
#include "banyan/metrics/sink.hpp"

namespace banyan::live {

/// A PageServer's work: listens until it is destroyed.
class HttpServer {
 public:
  virtual ~HttpServer() = default;
  virtual const std::string& url() const = 0;
  virtual std::shared_ptr<metrics::Sink> sink() const = 0;
};

struct HttpBackend {
  /// Counts changes to this struct, to HttpServer, PageServerOptions and PageFeed: a library from another
  /// build is refused, not called.
  static constexpr int kVersion = 1;
  int version;
  /// Throws bad_input if the port cannot be used.
  std::unique_ptr<HttpServer> (*start)(const PageServerOptions& options);
};

inline constexpr const char* kHttpBackendSymbol = "banyan_http_backend";
/// Type of the exported function: `extern "C" const banyan::live::HttpBackend* banyan_http_backend();`

}  // namespace banyan::live
