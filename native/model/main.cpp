/* Runs the model tests: `model [--weaken WHAT] [--scale PERCENT] [--show sites|history]
 * [NAME...]`.
 *
 * Every execution is one interleaving of the two threads with one choice of what
 * each load returns, out of all that C11 allows. Deterministic: execution number i
 * is seeded with i. Exit status 1 as soon as one test fails.
 */
#include <stdio.h>
#include <stdlib.h>

#include <iostream>

#include "lane.h"
#include "microphone.h"

static const char *weakened = NULL;
static const char *show = "";
uint32_t kh_model_words = 0;
const PlayoutCase *playout_case;
const CaptureCase *capture_case;

void kh_wake(int) {}

bool kh_site::racing = false;
kh_site *kh_site::all = NULL;

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

kh_site::kh_site(const char *path, int at, const char *order_name)
    : file(base_name(path)), line(at), name(order_name), next(all) {
  char place[80];
  snprintf(place, sizeof place, "%s:%d", file, line);
  weak = weakened != NULL && (strcmp(weakened, name) == 0 || strcmp(weakened, place) == 0);
  all = this;
}

/* Those that are not relaxed as they are. */
static void print_sites() {
  for (kh_site *site = kh_site::all; site != NULL; site = site->next)
    if (site->raced && strcmp(site->name, "KH_RELAXED") != 0) printf("site %s:%d %s\n", site->file, site->line, site->name);
}

static void control(Lane &lane) { playout_case->control(lane); }
static void control(Microphone &microphone) { capture_case->control(microphone); }

template <typename Fixture>
struct Suite : rl::test_suite<Suite<Fixture>, 2> {
  Fixture fixture;

  void thread(unsigned index) {
    if (index == 0) control(fixture);
    else fixture.callback();
  }
  void before() { kh_site::racing = true; }
  void after() {
    kh_site::racing = false;
    fixture.finish();
  }
};

template <typename Fixture>
static bool check(const char *name, unsigned executions, unsigned bound, unsigned percent) {
  std::ostream nowhere(NULL);
  rl::test_params params;
  params.progress_stream = &nowhere;
  params.output_stream = strcmp(show, "history") == 0 ? &std::cout : &nowhere;
  params.execution_depth_limit = 10000;
  params.context_bound = bound;
  params.search_type = executions ? rl::random_scheduler_type
                                  : rl::fair_context_bound_scheduler_type;
  params.iteration_count = executions ? executions * (rl::iteration_t)percent / 100 : 0;
  bool good = rl::simulate<Suite<Fixture> >(params);
  printf("%s %s: %llu executions%s, %s\n", good ? "ok  " : "FAIL", name,
         (unsigned long long)params.stop_iteration,
         executions ? "" : ", all within the preemption bound",
         rl::test_result_str(params.test_result));
  fflush(stdout);
  return good;
}

static bool wanted(const char *name, char **names) {
  bool any = false;
  for (; *names != NULL; names++) {
    if (strcmp(*names, name) == 0) return true;
    any = true;
  }
  return !any;
}

static bool playout_holds(bool exhaustive, unsigned percent, char **names) {
  for (unsigned i = 0; i < playout_case_count; i++) {
    playout_case = &playout_cases[i];
    kh_model_words = playout_case->words;
    if (exhaustive == (playout_case->executions == 0) && wanted(playout_case->name, names) &&
        !check<Lane>(playout_case->name, playout_case->executions, playout_case->bound, percent))
      return false;
  }
  return true;
}

static bool capture_holds(unsigned percent, char **names) {
  for (unsigned i = 0; i < capture_case_count; i++) {
    capture_case = &capture_cases[i];
    kh_model_words = capture_case->words;
    if (wanted(capture_case->name, names) &&
        !check<Microphone>(capture_case->name, capture_case->executions, 0, percent))
      return false;
  }
  return true;
}

int main(int, char **argv) {
  unsigned percent = 100;
  for (argv++; *argv != NULL && argv[1] != NULL && strncmp(*argv, "--", 2) == 0; argv += 2) {
    if (strcmp(*argv, "--weaken") == 0) weakened = argv[1];
    if (strcmp(*argv, "--scale") == 0) percent = (unsigned)atoi(argv[1]);
    if (strcmp(*argv, "--show") == 0) show = argv[1];
  }
  /* The exhaustive ones last: most faults show within a second before them. */
  bool good = playout_holds(false, percent, argv) && capture_holds(percent, argv) &&
              playout_holds(true, percent, argv);
  if (good && strcmp(show, "sites") == 0) print_sites();
  return good ? 0 : 1;
}
