// What the tests set on a running device. The same layout is in ../control.py.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace simulated {

// Shared memory: another process writes it while this one reads. Eight aligned bytes change at once.
struct Settings {
  double slow;              // factor on the stated time of every operation
  double default_seconds;   // stated time of an operation without one of its own
  double link_seconds;      // time of a collective apart from its bytes
  double bytes_per_second;  // of the link
  double depth;             // operations a stream holds before the host blocks; 0: no limit
  double hang;              // a Hang
  double lost;              // 1: every event raises
};

enum class Hang { none = 0, kernel = 1, collective = 2 };

const volatile Settings& settings();
// Maps the block in an open file, for as long as the process lives.
void attach(int file);

// Stated times by the name of the operation, without namespace and overload ("mm", "copy_").
class Costs {
 public:
  void set(std::map<std::string, double> seconds);
  double of(const std::string& name);  // counts the call
  std::map<std::string, int64_t> take_counts();

 private:
  std::mutex lock_;
  std::map<std::string, double> seconds_;
  std::map<std::string, int64_t> counts_;
};
Costs& costs();

}  // namespace simulated
