// Undefined behaviour in a build with UndefinedBehaviorSanitizer: it must end the program and show where.
#include <limits>

int main(int arguments, char**) {
  volatile int most = std::numeric_limits<int>::max();
  most = most + arguments;  // of which there is one at least, the program's name
  return 0;
}
