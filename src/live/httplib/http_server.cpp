// All that speaks HTTP: libbanyan_httplib.so.
#include <arpa/inet.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>
#include <string_view>
#include <thread>

#include "banyan/base/error.hpp"
#include "banyan/base/number.hpp"
#include "base/background_thread.hpp"
#include "live/http_backend.hpp"
#include "live/page_feed.hpp"

namespace banyan::live {
namespace {

constexpr const char* kAddress = "127.0.0.1";

/// 128 random bits.
std::string make_token() {
  std::random_device source;
  std::string token;
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (int word = 0; word < 4; ++word) {
    auto bits = static_cast<std::uint32_t>(source());
    for (int i = 0; i < 8; ++i, bits >>= 4) token += kDigits[bits & 15];
  }
  return token;
}

/// In a time that does not tell how much is right.
bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char differences = 0;
  for (std::size_t i = 0; i < a.size(); ++i) differences |= static_cast<unsigned char>(a[i] ^ b[i]);
  return differences == 0;
}

/// A page of another site whose name leads to this machine sends that name. Ports are another matter: they
/// may be forwarded.
bool names_this_machine(std::string_view host) {
  host = host.substr(0, host.rfind(':'));
  return host == kAddress || host == "localhost";
}

/// Why the port cannot be had.
std::string refusal(int port) {
  const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int yes = 1;
  ::setsockopt(probe, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const bool free = probe >= 0 && ::bind(probe, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  const std::string reason = free ? "it was in use a moment ago" : std::strerror(errno);
  if (probe >= 0) ::close(probe);
  return reason;
}

/// What the threads of the library use, which may be left behind: a browser may take any time to read.
struct Shared {
  std::shared_ptr<PageFeed> feed;
  std::string token;
  httplib::Server server;
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;  ///< the library has no thread any more

  void answer(const httplib::Request& request, httplib::Response& response) const {
    const auto say = [&](int status, const std::string& text) {
      response.status = status;
      response.set_content(text + "\n", "text/plain; charset=utf-8");
    };
    if (!names_this_machine(request.get_header_value("Host")))
      return say(403, "This server answers to the names 127.0.0.1 and localhost only.");
    if (request.method != "GET" && request.method != "HEAD") {
      response.set_header("Allow", "GET, HEAD");
      return say(405, "This server can only be read.");
    }
    // /TOKEN/ and /TOKEN/data
    const std::string_view path = request.path;
    if (!path.starts_with('/')) return say(404, "Not found.");
    const std::size_t slash = path.find('/', 1);
    const std::string_view first = path.substr(1, slash == path.npos ? path.npos : slash - 1);
    const std::string_view rest = slash == path.npos ? "" : path.substr(slash);
    const bool is_page = rest == "/" || rest == "/data";
    if (!same(first, token))
      return is_page ? say(403, "Another address: the log of the run has it.") : say(404, "Not found.");
    if (rest.empty()) return response.set_redirect("/" + token + "/");
    if (!is_page) return say(404, "Not found.");
    if (rest == "/") return response.set_content(feed->page(), "text/html; charset=utf-8");
    const auto version = number_in<std::int64_t>(request.get_param_value("after"));
    if (!version) return say(400, "Expected data?after=VERSION.");
    const std::string data = request.method == "HEAD" ? "" : feed->later_than(*version);
    if (data.empty())
      response.status = 204;
    else
      response.set_content(data, "application/json");
  }
};

class HttplibServer : public HttpServer {
 public:
  explicit HttplibServer(const PageServerOptions& options);
  ~HttplibServer() override;
  const std::string& url() const override { return url_; }
  std::shared_ptr<metrics::Sink> sink() const override { return shared_->feed; }

 private:
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::string url_;
  std::thread thread_;
};

HttplibServer::HttplibServer(const PageServerOptions& options) {
  const std::shared_ptr<Shared> shared = shared_;
  shared->feed = std::make_shared<PageFeed>(options.name, options.folder, options.resumes);
  shared->token = make_token();
  httplib::Server& server = shared->server;
  // The library's own options would let two programs have one port.
  server.set_socket_options([](int socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  // Pages that are open wait on these; three are left for those that are being loaded.
  constexpr std::size_t kThreads = PageFeed::kMostWaiting + 3, kLargestRequest = 4096;
  constexpr time_t kPatience = 5;
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server.set_keep_alive_max_count(1);
  server.set_read_timeout(kPatience);
  server.set_write_timeout(kPatience);
  server.set_payload_max_length(kLargestRequest);
  server.set_tcp_nodelay(true);
  server.set_default_headers({{"Cache-Control", "no-store"},
                              {"Referrer-Policy", "no-referrer"},
                              {"X-Content-Type-Options", "nosniff"},
                              {"X-Frame-Options", "DENY"},
                              {"Cross-Origin-Resource-Policy", "same-origin"}});
  server.set_pre_routing_handler(
      [self = shared.get()](const httplib::Request& request, httplib::Response& response) {
        self->answer(request, response);
        return httplib::Server::HandlerResponse::Handled;
      });
  const int port = options.port == 0                             ? server.bind_to_any_port(kAddress)
                   : server.bind_to_port(kAddress, options.port) ? options.port
                                                                 : -1;
  if (port <= 0)
    bad_input("--serve=", options.port, ": port ", options.port, " of ", kAddress,
              " cannot be used: ", refusal(options.port), "; --serve=0 takes any that is free");
  url_ = cat("http://", kAddress, ":", port, "/", shared->token, "/");
  thread_ = std::thread([shared] {
    enter_background("serve");
    shared->server.listen_after_bind();
    const std::lock_guard lock(shared->mutex);
    shared->ended = true;
    shared->changed.notify_all();
  });
  // Until then the library takes no request to stop.
  while (!server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

HttplibServer::~HttplibServer() {
  constexpr std::chrono::milliseconds kPatience{2000};
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  Shared& shared = *shared_;
  shared.feed->end();
  shared.feed->wait_for_readers(kPatience);
  shared.server.stop();
  bool ended = false;
  {
    std::unique_lock lock(shared.mutex);
    ended = shared.changed.wait_until(lock, deadline, [&] { return shared.ended; });
  }
  if (ended)
    thread_.join();
  else
    thread_.detach();
}

std::unique_ptr<HttpServer> start(const PageServerOptions& options) {
  return std::make_unique<HttplibServer>(options);
}

constexpr HttpBackend kTable{HttpBackend::kVersion, &start};

}  // namespace
}  // namespace banyan::live

extern "C" const banyan::live::HttpBackend* banyan_http_backend() { return &banyan::live::kTable; }
