#include "banyan/train/progress.hpp"

#include <glog/logging.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace banyan {
namespace {

using testing::HasSubstr;

/// Everything written to the console since the last call, through a pipe.
class Output {
 public:
  Output() { EXPECT_EQ(::pipe(fds_), 0); }
  ~Output() {
    ::close(fds_[0]);
    ::close(fds_[1]);
  }
  int fd() const { return fds_[1]; }
  std::string take() const {
    EXPECT_EQ(::write(fds_[1], "$", 1), 1);  // so that reading never blocks
    char bytes[4096];
    const ssize_t count = ::read(fds_[0], bytes, sizeof bytes);
    EXPECT_GT(count, 0);
    return std::string(bytes, static_cast<std::size_t>(count - 1));
  }

 private:
  int fds_[2];
};

TEST(Progress, Line) {
  ProgressNumbers numbers{120, 1000, 0.12341, 0.01, 1520.4, 130};
  EXPECT_EQ(progress_line(numbers),
            "Iteration 120/1000 (12 %)  loss 0.1234  lr 0.01  1520 samples/s  2 min 10 s left");
  numbers.samples_per_second = 0;
  numbers.seconds_left = -1;
  EXPECT_EQ(progress_line(numbers), "Iteration 120/1000 (12 %)  loss 0.1234  lr 0.01");
}

TEST(Progress, SpeedAndRateLimit) {
  Output output;
  Console console(ProgressMode::on, output.fd(), 200);
  Progress progress(&console, nullptr, 100);
  const auto start = Progress::Clock::now();
  using std::chrono::milliseconds;
  progress.update(0, 0, 1, 0.1, start);
  EXPECT_THAT(output.take(), HasSubstr("Iteration 0/100"));
  progress.update(1, 32, 1, 0.1, start + milliseconds(100));
  EXPECT_EQ(output.take(), "");  // less than 200 ms after the last one
  progress.update(10, 320, 1, 0.1, start + milliseconds(1000));
  EXPECT_THAT(output.take(), HasSubstr("320 samples/s  9 s left"));
}

/// A display that draws by itself gets the same numbers.
TEST(Progress, GoesToABoardToo) {
  RunBoard board;
  Progress progress(nullptr, &board, 100);
  EXPECT_TRUE(progress.active());
  const auto start = Progress::Clock::now();
  progress.update(0, 0, 1, 0.1, start);
  progress.update(10, 320, 0.5, 0.2, start + std::chrono::seconds(1));
  const ProgressNumbers numbers = board.progress();
  EXPECT_EQ(numbers.iteration, 10);
  EXPECT_EQ(numbers.max_iter, 100);
  EXPECT_EQ(numbers.loss, 0.5);
  EXPECT_EQ(numbers.rate, 0.2);
  EXPECT_DOUBLE_EQ(numbers.samples_per_second, 320);
  EXPECT_DOUBLE_EQ(numbers.seconds_left, 9);
}

TEST(Console, NothingWithoutATerminal) {
  Output output;
  Console console(ProgressMode::automatic, output.fd());
  EXPECT_FALSE(console.shows_status());
  console.set_status("working");
  EXPECT_EQ(output.take(), "");
  console.print("a line\n");
  EXPECT_EQ(output.take(), "a line\n");
}

TEST(Console, StatusIsErasedBeforeALineAndDrawnAgainAfterIt) {
  Output output;
  Console console(ProgressMode::on, output.fd(), 80);
  console.set_status("working");
  EXPECT_EQ(output.take(), "\r\x1b[Kworking");
  console.print("a line\n");
  EXPECT_EQ(output.take(), "\r\x1b[Ka line\nworking");
  console.clear_status();
  EXPECT_EQ(output.take(), "\r\x1b[K");
  console.print("a line\n");
  EXPECT_EQ(output.take(), "a line\n");
}

TEST(Console, LogLinesHaveCaffesPrefix) {
  Output output;
  Console console(ProgressMode::off, output.fd());
  {
    const auto route = route_logs("test", console);
    LOG(WARNING) << "Iteration 7, lr = 0.1";
  }
  // The awk parsers in use take column 9 of this line: the prefix has four columns, the date is MMDD without
  // a year.
  EXPECT_THAT(output.take(), testing::ContainsRegex(
                                 "^W[01][0-9][0-3][0-9] [0-2][0-9]:[0-5][0-9]:[0-5][0-9][.][0-9]{6} +[0-9]+ "
                                 "progress_test.cpp:[0-9]+] Iteration 7, lr = 0.1\n$"));
}

TEST(Console, StatusNeverWraps) {
  Output output;
  Console console(ProgressMode::on, output.fd(), 10);
  console.set_status("0123456789abc");
  EXPECT_EQ(output.take(), "\r\x1b[K012345678");
}

}  // namespace
}  // namespace banyan
