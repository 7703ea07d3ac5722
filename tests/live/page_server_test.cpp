// What browsers on this machine, and nobody else, get of a run that goes on.
#include "banyan/live/page_server.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "banyan/base/error.hpp"
#include "live/page_feed.hpp"
#include "tools/program_test.hpp"

namespace banyan::live {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Address {
  int port = 0;
  std::string path;  ///< "/TOKEN/"
};

Address address_in(const std::string& url) {
  const std::string head = "http://127.0.0.1:";
  EXPECT_THAT(url, StartsWith(head));
  const std::size_t slash = url.find('/', head.size());
  return {std::stoi(url.substr(head.size(), slash - head.size())), url.substr(slash)};
}

int connect_to(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    ::close(socket);
    return -1;
  }
  return socket;
}

/// The bytes of the answer; "" if there is no server.
std::string ask(int port, const std::string& request) {
  const int socket = connect_to(port);
  if (socket < 0) return "";
  std::string answer;
  if (::send(socket, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size())) {
    char buffer[65536];
    for (ssize_t got = 0; (got = ::recv(socket, buffer, sizeof buffer, 0)) > 0;)
      answer.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(socket);
  return answer;
}

std::string get(const Address& to, const std::string& path, const std::string& host = "127.0.0.1") {
  return ask(to.port, "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
}

int status_of(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 ") ? std::stoi(answer.substr(9)) : 0;
}
std::string body_of(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }

Json data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(open) + open.size();
  return Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

metrics::Record start(std::int64_t iteration, int max_iter) {
  metrics::Start start;
  start.version = "0.1.0";
  start.max_iter = max_iter;
  return {iteration, 100, start};
}

metrics::Record train(std::int64_t iteration, double loss) {
  metrics::Train train;
  train.loss = loss;
  return {iteration, 101, train};
}

class PageServerTest : public tools::ProgramTest {
 protected:
  void SetUp() override {
    if (!has_page_server()) GTEST_SKIP() << "this build has no cpp-httplib";
    ProgramTest::SetUp();
  }
};

TEST_F(PageServerTest, ShowsTheRun) {
  PageServer server({.name = "solver"});
  const Address at = address_in(server.url());
  EXPECT_EQ(at.path.size(), 34u);
  std::string answer = get(at, at.path);
  EXPECT_EQ(status_of(answer), 200);
  EXPECT_THAT(answer, AllOf(HasSubstr("is being set up"), HasSubstr("http-equiv=\"refresh\"")));
  server.sink()->write(start(0, 1000));
  server.sink()->write(train(0, 0.5));
  answer = get(at, at.path);
  EXPECT_EQ(status_of(answer), 200);
  EXPECT_THAT(answer, AllOf(HasSubstr("default-src 'none'"), HasSubstr("connect-src 'self'"),
                            HasSubstr("Cache-Control: no-store"), HasSubstr("Referrer-Policy: no-referrer"),
                            HasSubstr("X-Frame-Options: DENY"), Not(HasSubstr("Access-Control")),
                            Not(HasSubstr("{{"))));
  const Json data = data_of(answer);
  EXPECT_EQ(data["live"], 2);
  EXPECT_EQ(data["runs"][0]["name"], "solver");
  EXPECT_EQ(data["runs"][0]["train"]["columns"]["loss"], Json({0.5}));
  EXPECT_EQ(status_of(get(at, at.path, "localhost:9000")), 200);  // ports may be forwarded
  EXPECT_EQ(status_of(ask(at.port, "HEAD " + at.path + " HTTP/1.1\r\nHost: localhost\r\n\r\n")), 200);
  answer = get(at, at.path.substr(0, at.path.size() - 1));
  EXPECT_EQ(status_of(answer), 302);
  EXPECT_THAT(answer, HasSubstr("Location: " + at.path));
}

TEST_F(PageServerTest, AnswersWhenThereIsSomethingNew) {
  PageServer server({.name = "solver"});
  const Address at = address_in(server.url());
  server.sink()->write(start(0, 1000));
  EXPECT_EQ(data_of(get(at, at.path))["live"], 1);
  const Clock::time_point begin = Clock::now();
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    server.sink()->write(train(0, 0.25));
  });
  const std::string answer = get(at, at.path + "data?after=1");
  later.join();
  EXPECT_GE(seconds_since(begin), 0.3);
  EXPECT_EQ(status_of(answer), 200);
  EXPECT_THAT(answer, HasSubstr("Content-Type: application/json"));
  const Json data = Json::parse(body_of(answer));
  EXPECT_EQ(data["version"], 2);
  EXPECT_EQ(data["ended"], false);
  EXPECT_EQ(data["run"]["train"]["columns"]["loss"], Json({0.25}));
}

TEST_F(PageServerTest, NobodyElseReadsAndNobodyWrites) {
  PageServer server({.name = "solver"});
  const Address at = address_in(server.url());
  server.sink()->write(start(0, 1000));
  const std::string wrong = "/" + std::string(32, '0') + "/";
  EXPECT_EQ(status_of(get(at, wrong)), 403);
  EXPECT_EQ(status_of(get(at, wrong + "data?after=0")), 403);
  EXPECT_EQ(status_of(get(at, "/x/")), 403);
  for (const std::string& path :
       {std::string("/"), std::string("/favicon.ico"), wrong + "other", at.path + "other", at.path + "data/",
        at.path + "../", std::string("//"), std::string("/data"), std::string("/%2e%2e/etc/passwd")})
    EXPECT_THAT(status_of(get(at, path)), testing::AnyOf(404, 403)) << path;
  EXPECT_EQ(status_of(get(at, "/")), 404);
  EXPECT_EQ(status_of(get(at, at.path + "other")), 404);
  EXPECT_EQ(status_of(get(at, "/favicon.ico")), 404);
  for (const std::string after :
       {"", "?after=", "?after=x", "?after=1x", "?after=99999999999999999999", "?before=1"})
    EXPECT_EQ(status_of(get(at, at.path + "data" + after)), 400) << after;
  for (const std::string method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
    EXPECT_EQ(status_of(ask(at.port, method + " " + at.path +
                                         " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")),
              405)
        << method;
  // What a page of another site sends whose name leads here.
  for (const std::string host :
       {"evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "localhost.evil.example"})
    EXPECT_EQ(status_of(get(at, at.path, host)), 403) << host;
  EXPECT_EQ(status_of(ask(at.port, "GET " + at.path + " HTTP/1.0\r\n\r\n")), 403);
  for (const std::string& garbage :
       {std::string("\r\n\r\n"), std::string("GET\r\n\r\n"), std::string("GET * HTTP/1.1\r\n\r\n"),
        std::string(20000, 'x') + "\r\n\r\n",
        "GET /" + std::string(20000, 'x') + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
        std::string("\0\x16\x03\x01\r\n\r\n", 8)}) {
    const std::string answer = ask(at.port, garbage);
    EXPECT_THAT(answer, Not(HasSubstr("200 OK")));
    EXPECT_THAT(answer, Not(HasSubstr(at.path)));
  }
  EXPECT_EQ(status_of(get(at, at.path)), 200);  // still
}

TEST_F(PageServerTest, ListensOnThisMachineOnly) {
  PageServer server({.name = "solver"});
  // As /proc tells: address 127.0.0.1, little-endian, and the port; state 0A is listening.
  std::ifstream table("/proc/net/tcp");
  char wanted[16];
  std::snprintf(wanted, sizeof wanted, ":%04X", address_in(server.url()).port);
  int listening = 0;
  for (std::string line; std::getline(table, line);) {
    if (line.find(wanted) == std::string::npos || line.find(" 0A ") == std::string::npos) continue;
    ++listening;
    EXPECT_THAT(line, HasSubstr(std::string("0100007F") + wanted));
  }
  EXPECT_EQ(listening, 1);
}

TEST_F(PageServerTest, APortInUseIsRefused) {
  PageServer first({.name = "a"});
  const int port = address_in(first.url()).port;
  try {
    PageServer second({.port = port, .name = "b"});
    FAIL() << "two servers have port " << port;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_THAT(error.message(),
                AllOf(HasSubstr("--serve=" + std::to_string(port)), HasSubstr("Address already in use"),
                      HasSubstr("--serve=0"), Not(HasSubstr("\n"))));
  }
}

TEST_F(PageServerTest, EndsAtOnceButTellsThoseWhoWait) {
  auto server = std::make_unique<PageServer>(PageServerOptions{.name = "solver"});
  const Address at = address_in(server->url());
  server->sink()->write(start(0, 1000));
  EXPECT_EQ(status_of(get(at, at.path)), 200);
  std::string answer;
  std::thread reader([&] { answer = get(at, at.path + "data?after=1"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  server->sink()->write({7, 102, metrics::End{"finished", "", 2}});
  const Clock::time_point begin = Clock::now();
  server.reset();
  EXPECT_LT(seconds_since(begin), 1.5);  // it is not waited for longer than it takes
  reader.join();
  const Json data = Json::parse(body_of(answer));
  EXPECT_EQ(data["ended"], true);
  EXPECT_EQ(data["run"]["ends"][0]["reason"], "finished");
  EXPECT_EQ(ask(at.port, "GET / HTTP/1.1\r\n\r\n"), "");
}

/// More pages than there are threads wait for news; one more can still be loaded.
TEST_F(PageServerTest, ManyPagesAreOpen) {
  auto server = std::make_unique<PageServer>(PageServerOptions{.name = "solver"});
  const Address at = address_in(server->url());
  server->sink()->write(start(0, 1000));
  EXPECT_EQ(status_of(get(at, at.path)), 200);
  constexpr int kPages = 40;
  std::vector<std::thread> pages;
  std::atomic<int> told{0};
  for (int i = 0; i < kPages; ++i)
    pages.emplace_back([&] {
      // As the page's script does, but without its pause.
      for (int status = 204; status == 204;) {
        const std::string answer = get(at, at.path + "data?after=1");
        status = status_of(answer);
        if (status == 200) ++told;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const Clock::time_point begin = Clock::now();
  EXPECT_EQ(status_of(get(at, at.path)), 200);
  EXPECT_LT(seconds_since(begin), 5);  // those who wait do so for 20 s
  server->sink()->write(train(0, 0.5));
  for (std::thread& page : pages) page.join();
  EXPECT_EQ(told, kPages);
}

/// Whoever sends half a request, or does not read the answer, holds up nothing.
TEST_F(PageServerTest, SlowReadersDoNotHoldUpTheEnd) {
  auto server = std::make_unique<PageServer>(PageServerOptions{.name = "solver"});
  const Address at = address_in(server->url());
  server->sink()->write(start(0, 1000));
  std::vector<int> sockets;
  for (int i = 0; i < 12; ++i) {
    sockets.push_back(connect_to(at.port));
    const std::string half =
        i % 2 ? "GET " + at.path : "GET " + at.path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
    ASSERT_GT(::send(sockets.back(), half.data(), half.size(), MSG_NOSIGNAL), 0);
  }
  for (int i = 0; i < 1000; ++i) server->sink()->write(train(i, 0.5));  // nor records
  const Clock::time_point begin = Clock::now();
  server.reset();
  EXPECT_LT(seconds_since(begin), 4);  // two, on a machine that may be busy
  for (const int socket : sockets) ::close(socket);
}

/// A long run with many outputs: what is kept and what is sent stays bounded.
TEST_F(PageServerTest, ALongRunStaysSmall) {
  PageFeed feed("solver", "", false);
  feed.write(start(0, 10000000));
  for (int i = 0; i < 60000; ++i) feed.write(train(20 * i, i % 1000 == 999 ? std::nan("") : 1.0 / (i + 1)));
  const std::string page = feed.page();
  EXPECT_LT(page.size(), 1u << 20);
  const Json run = data_of(page)["runs"][0];
  EXPECT_EQ(run["train"]["rows"], 60000);
  EXPECT_LT(run["train"]["columns"]["loss"].size(), 3200u);
  EXPECT_GT(run["train"]["columns"]["loss"].size(), 1000u);
}

/// The file's beginning of a resumed run, without what comes again.
TEST_F(PageServerTest, AResumedRunShowsItsBeginning) {
  std::filesystem::create_directory(path("metrics"));
  write("metrics/metrics.jsonl",
        "{\"kind\": \"start\", \"iteration\": 0, \"time\": 100, \"format\": 1, \"version\": \"0.1.0\", "
        "\"max_iter\": 9}\n"
        "{\"kind\": \"train\", \"iteration\": 0, \"time\": 101, \"loss\": 3}\n"
        "{\"kind\": \"train\", \"iteration\": 4, \"time\": 102, \"loss\": 2}\n"
        "{\"kind\": \"train\", \"iteration\": 8, \"time\": 103, \"loss\": 1}\n"
        "{\"kind\": \"end\", \"iteration\": 9, \"time\": 104, \"reason\": \"finished\", \"seconds\": 4}\n"
        "{\"kind\": \"tra");
  PageFeed feed("solver", path("metrics"), true);
  feed.write(start(5, 9));
  feed.write(train(5, 1.5));
  const Json run = data_of(feed.page())["runs"][0];
  EXPECT_EQ(run["train"]["columns"]["iteration"], Json({0, 4, 5}));
  EXPECT_EQ(run["ends"].size(), 0u);
  EXPECT_EQ(run["starts"].size(), 2u);
  EXPECT_EQ(run["notes"].size(), 0u);
  PageFeed fresh("solver", path("metrics"), false);
  fresh.write(start(0, 9));
  EXPECT_EQ(data_of(fresh.page())["runs"][0]["starts"].size(), 1u);
}

class ServeTest : public PageServerTest {
 protected:
  void SetUp() override {
    PageServerTest::SetUp();
    if (IsSkipped()) return;
    write("net.prototxt", R"(name: "small"
      layer { name: "data" type: "DummyData" top: "data" top: "label"
              dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 } data_filler { type: "gaussian" }
                               data_filler { value: 1 } } }
      layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 2 } }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })");
    write("solver.prototxt",
          "net: 'net.prototxt' base_lr: 0.1 lr_policy: 'fixed' max_iter: 100000000 display: 1000 "
          "snapshot_after_train: false");
  }
  void TearDown() override {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    PageServerTest::TearDown();
  }
  /// Starts a run in the background and returns the page's address from its log.
  std::string start_run(const std::string& flags) {
    pid_ = ::fork();
    if (pid_ == 0) {
      const std::string line =
          "cd '" + folder_ +
          "' && exec '" BANYAN_BIN
          "/trainer' --solver=solver.prototxt --cpu=1 --threads_per_device=1 --pin=off " +
          flags + " > log 2>&1";
      ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      ::_exit(127);
    }
    const std::string head = "This run's report: ";
    for (int i = 0; i < 600; ++i, ::usleep(50000)) {
      const std::string log = read("log");
      const std::size_t at = log.find(head);
      if (at != std::string::npos && log.find('\n', at) != std::string::npos)
        return log.substr(at + head.size(), log.find('\n', at) - at - head.size());
    }
    ADD_FAILURE() << read("log");
    return "";
  }
  int stop_run() {
    ::kill(pid_, SIGINT);
    int status = -1;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }
  pid_t pid_ = -1;
};

TEST_F(ServeTest, ATrainingRun) {
  const Address at = address_in(start_run("--serve=0"));
  std::string page;
  for (int i = 0; i < 200 && page.find("\"columns\":{\"iteration\":[0") == std::string::npos;
       ++i, ::usleep(50000))
    page = get(at, at.path);
  const Json data = data_of(page);
  EXPECT_EQ(data["runs"][0]["name"], "solver");
  EXPECT_EQ(data["runs"][0]["starts"][0]["max_iter"], 100000000);
  const Json later = Json::parse(body_of(get(at, at.path + "data?after=" + data["live"].dump())));
  EXPECT_GT(later["version"], data["live"]);
  // A port is one run's.
  const tools::Result other =
      run("trainer --solver=solver.prototxt --cpu=1 --serve=" + std::to_string(at.port));
  EXPECT_EQ(other.code, 2) << other.output;
  EXPECT_THAT(other.output,
              HasSubstr("trainer: --serve=" + std::to_string(at.port) + ": port " + std::to_string(at.port) +
                        " of 127.0.0.1 cannot be used: Address already in use"));
  EXPECT_EQ(stop_run(), 0) << read("log");
  EXPECT_EQ(get(at, at.path), "");
  EXPECT_FALSE(std::filesystem::exists(path("metrics.jsonl")));
}

TEST_F(ServeTest, Usage) {
  for (const std::string port : {"x", "-1", "65536", "80x", ""})
    expect_bad_input("trainer --solver=solver.prototxt --serve=" + port,
                     "--serve=" + port + ": expected a port");
  expect_bad_input("trainer test --model=net.prototxt --serve=0", "--serve");
}

/// In headless Chromium: the page follows the run to its end, and disturbs nobody who uses it.
TEST_F(ServeTest, InABrowser) {
  const std::string script = "python3 -B '" BANYAN_SOURCE "/tests/live/check_live_page.py' ";
  if (std::system((script + "--browser > /dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "Chromium or python3 is not installed: the page is not drawn";
  const std::string url = start_run("--serve=0 --metrics=run");
  const std::string line = script + "'" + url + "' '" + path("run") + "' " + std::to_string(pid_) + " > '" +
                           path("checked") + "' 2>&1";
  EXPECT_EQ(std::system(line.c_str()), 0) << read("checked");
}

}  // namespace
}  // namespace banyan::live
