"""Two network namespaces joined by a virtual cable, and MPI ranks at both of its ends.

Needs user namespaces of Linux.
"""

import subprocess

__all__ = ["CABLE", "ISOLATED", "RANKS", "WIRED", "why_no_cable"]

CABLE = """
ip link set lo up || exit 77
unshare --net sleep 300 > /dev/null 2>&1 &
far=$!
sleep 0.5
ip link add cable0 type veth peer name cable0 netns $far || exit 77
ip addr add 10.9.0.1/24 dev cable0 && ip link set cable0 up
there="nsenter --net=/proc/$far/ns/net"
$there ip link set lo up && $there ip addr add 10.9.0.2/24 dev cable0
$there ip link set cable0 up
"""
"""Lays a cable; `$there` runs a command at its far end, process `$far` holds that end."""

ISOLATED = ["unshare", "--user", "--map-root-user", "--net", "--mount", "bash", "-c"]
"""Command that runs such a script."""

RANKS = """
# addresses of links are tentative at first
sleep 2
%(mpiexec)s -n 1 %(rank)s : -n 1 $there %(rank)s
code=$?
kill -9 $far
exit $code
"""
"""Starts a rank at each end."""

WIRED = {
    # Open MPI: TCP over the cable, also to the far rank's daemon
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "tcp,self",
    "OMPI_MCA_btl_tcp_if_include": "cable0",
    "PMIX_MCA_ptl_base_if_include": "cable0",
    "PRTE_MCA_prte_if_include": "cable0",
    # MPICH: without these it goes through shared memory, across namespaces too
    "MPIR_CVAR_NOLOCAL": "1",
    "MPIR_CVAR_CH4_NETMOD": "ofi",
    "FI_PROVIDER": "tcp",
    "FI_TCP_IFACE": "cable0",
    # its own control does not hang on the cable
    "HYDRA_IFACE": "lo",
}
"""Variables that make both MPIs use the cable."""


def why_no_cable() -> str:
    """Return why no cable can be laid on this machine; empty if one can."""
    try:
        probe = subprocess.run(
            [*ISOLATED, CABLE + "kill $far"], capture_output=True, check=False, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if not probe.returncode:
        return ""
    return f"no virtual cable can be made here ({probe.stderr.decode()[:80]})"
