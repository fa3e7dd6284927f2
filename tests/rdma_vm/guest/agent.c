/* Runs programs in the guest on behalf of the host. It is PID 1 there, so orphans are its to reap.

   One TCP connection is one command. Integers are big-endian 32 bit.
     request  u32 length, then NUL-terminated strings: the mode, then argv
              mode "bound": when the host closes the connection, the process group is killed
              mode "linger": the process runs on without its host, as it does after a lost `kubectl exec`
     frames   u8 type, u32 length, bytes
              to the host:   PID u32 (the program runs), OUT, ERR, EXIT i32 (code, or minus the signal),
                             FAILED i32 (errno: it could not be started)
              from the host: SIGNAL u32 (to the whole process group)

   The command ends when its process ends; what its children still hold open is not waited for. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUT = 1, ERR = 2, EXIT = 3, SIGNAL = 4, PID = 5, FAILED = 6 };
enum { MAX_REQUEST = 1 << 20, MAX_ARGS = 1024 };

static int read_all(int fd, void *to, size_t n) {
  char *p = to;
  while (n) {
    ssize_t k = read(fd, p, n);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return -1;
    p += k;
    n -= k;
  }
  return 0;
}

static int write_all(int fd, const void *from, size_t n) {
  const char *p = from;
  while (n) {
    ssize_t k = write(fd, p, n);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return -1;
    p += k;
    n -= k;
  }
  return 0;
}

static int send_frame(int host, uint8_t type, const void *bytes, uint32_t n) {
  uint8_t head[5] = {type};
  uint32_t length = htonl(n);
  memcpy(head + 1, &length, 4);
  return write_all(host, head, 5) || write_all(host, bytes, n) ? -1 : 0;
}

static int send_number(int host, uint8_t type, int32_t value) {
  uint32_t n = htonl((uint32_t)value);
  return send_frame(host, type, &n, 4);
}

/* Starts argv as the leader of a new process group. Returns its pid, or minus the errno of the failure. */
static pid_t start(char **argv, int *out, int *err) {
  int o[2], e[2], failed[2], error = 0;
  if (pipe2(o, O_CLOEXEC) || pipe2(e, O_CLOEXEC) || pipe2(failed, O_CLOEXEC)) return -errno;
  pid_t pid = fork();
  if (pid < 0) return -errno;
  if (!pid) {
    int nothing = open("/dev/null", O_RDONLY);
    setpgid(0, 0);
    dup2(nothing, 0);
    dup2(o[1], 1);
    dup2(e[1], 2);
    signal(SIGPIPE, SIG_DFL);
    setpriority(PRIO_PROCESS, 0, 0);
    execvp(argv[0], argv);
    error = errno;
    write_all(failed[1], &error, sizeof error);
    _exit(127);
  }
  setpgid(pid, pid);
  close(o[1]);
  close(e[1]);
  close(failed[1]);
  if (read(failed[0], &error, sizeof error) == sizeof error) {
    waitpid(pid, NULL, 0);
    return -error;
  }
  close(failed[0]);
  *out = o[0];
  *err = e[0];
  return pid;
}

/* Passes on what a pipe holds; closes it at its end. Without a host the bytes are dropped. */
static int pump(struct pollfd *pipe, int host, uint8_t type) {
  char bytes[16384];
  ssize_t k = read(pipe->fd, bytes, sizeof bytes);
  if (k < 0 && errno == EAGAIN) return 0;
  if (k <= 0) {
    close(pipe->fd);
    pipe->fd = -1;
    return 0;
  }
  return host >= 0 && send_frame(host, type, bytes, k) ? -1 : 1;
}

/* One frame from the host: a signal for the process group. */
static int obey(int host, pid_t pid) {
  uint8_t head[5];
  uint32_t length, number;
  if (read_all(host, head, 5)) return -1;
  memcpy(&length, head + 1, 4);
  if (head[0] != SIGNAL || ntohl(length) != 4 || read_all(host, &number, 4)) return -1;
  kill(-pid, ntohl(number));
  return 0;
}

static void run(int host, int linger, char **argv) {
  int out, err, status;
  pid_t pid = start(argv, &out, &err);
  if (pid < 0) {
    send_number(host, FAILED, -pid);
    return;
  }
  int gone = send_number(host, PID, pid);
  int ended = syscall(SYS_pidfd_open, pid, 0);
  fcntl(out, F_SETFL, O_NONBLOCK);
  fcntl(err, F_SETFL, O_NONBLOCK);
  struct pollfd p[4] = {{out, POLLIN, 0}, {err, POLLIN, 0}, {host, POLLIN, 0}, {ended, POLLIN, 0}};
  while (!p[3].revents) {
    if (gone && p[2].fd >= 0) {
      if (!linger) {
        kill(-pid, SIGKILL);
        break;
      }
      close(host);
      host = p[2].fd = -1;
    }
    if (poll(p, 4, -1) < 0) continue;
    if (p[0].revents && pump(&p[0], host, OUT) < 0) gone = 1;
    if (p[1].revents && pump(&p[1], host, ERR) < 0) gone = 1;
    if (p[2].fd >= 0 && p[2].revents && obey(host, pid)) gone = 1;
  }
  while (p[0].fd >= 0 && pump(&p[0], host, OUT) > 0) continue;
  while (p[1].fd >= 0 && pump(&p[1], host, ERR) > 0) continue;
  waitpid(pid, &status, 0);
  if (host >= 0) send_number(host, EXIT, WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

static void serve(int host) {
  uint32_t n;
  int argc = 0;
  char *argv[MAX_ARGS + 1];
  if (read_all(host, &n, 4) || (n = ntohl(n)) == 0 || n > MAX_REQUEST) return;
  char *request = malloc(n + 1);
  if (!request || read_all(host, request, n)) return;
  request[n] = 0;
  for (char *s = request; s < request + n && argc < MAX_ARGS; s += strlen(s) + 1) argv[argc++] = s;
  argv[argc] = NULL;
  if (argc >= 2) run(host, !strcmp(argv[0], "linger"), argv + 1);
}

int main(int argc, char **argv) {
  int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(argc > 1 ? atoi(argv[1]) : 5000)};
  signal(SIGCHLD, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  setpriority(PRIO_PROCESS, 0, -10); /* it answers however busy the programs are */
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(listener, (void *)&here, sizeof here) || listen(listener, 64)) {
    perror("agent");
    return 1;
  }
  for (;;) {
    int host = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (host < 0) continue;
    setsockopt(host, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (!fork()) {
      signal(SIGCHLD, SIG_DFL);
      serve(host);
      _exit(0);
    }
    close(host);
  }
}
