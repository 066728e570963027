#include "tails.h"
#include <assert.h>
#include <math.h>
#include <stdbool.h>

//  Skewness below which the gamma law and the normal one differ by less than a part in a hundred, at ten
//  standard deviations.
#define TAILS_SKEWNESS_LEAST 1e-4
//  What a sum's or a fraction's next step must change to be worth another.
#define TAILS_STEP_LEAST 1e-15

double
tails_normal (double z)
{
    return erfc (z / sqrt (2)) / 2;
}

//  --------------------------------------------------------------------------
//  The gamma law

//  x^shape e^-x / Gamma (shape), the factor that both expansions share.
static double
s_gamma_front (double shape, double x)
{
    return exp (shape * log (x) - x - lgamma (shape));
}

//  The lower tail's power series: quick for x below shape + 1.
static double
s_gamma_lower (double shape, double x)
{
    double term = 1 / shape, sum = term;
    for (double next = shape + 1; term > sum * TAILS_STEP_LEAST; next++) {
        term *= x / next;
        sum += term;
    }
    return sum * s_gamma_front (shape, x);
}

//  The upper tail's continued fraction (Lentz's way): quick for x above shape + 1.
static double
s_gamma_upper (double shape, double x)
{
    double b = x + 1 - shape, c = 1e300, d = 1 / b, fraction = d;
    for (double step = 1;; step++) {
        double a = -step * (step - shape);
        b += 2;
        d = 1 / (a * d + b);
        c = b + a / c;
        fraction *= c * d;
        if (fabs (c * d - 1) < TAILS_STEP_LEAST * 10)
            return fraction * s_gamma_front (shape, x);
    }
}

static double
s_gamma_tail (double shape, double x)
{
    if (x <= 0)
        return 1;
    return x < shape + 1? 1 - s_gamma_lower (shape, x): s_gamma_upper (shape, x);
}

double
tails_skewed (double z, double skewness)
{
    if (skewness < TAILS_SKEWNESS_LEAST)
        return tails_normal (z);
    double shape = 4 / (skewness * skewness);
    double tail = s_gamma_tail (shape, shape + z * sqrt (shape));
    return tail < 0? 0: tail;
}

//  --------------------------------------------------------------------------
//  Counts

static double
s_log_choose (double n, double k)
{
    return lgamma (n + 1) - lgamma (k + 1) - lgamma (n - k + 1);
}

double
tails_binomial (uint64_t trials, double probability, uint64_t hits)
{
    assert (hits <= trials);
    assert (probability >= 0 && probability <= 1);
    double n = (double) trials, k = (double) hits;
    if (k <= n * probability)
        return 1;
    if (probability <= 0)
        return 0;
    double term = exp (s_log_choose (n, k) + k * log (probability) + (n - k) * log1p (-probability));
    double sum = term;
    //  Above the mean each term is smaller than the one before.
    for (; k < n && term > sum * TAILS_STEP_LEAST; k++) {
        term *= (n - k) / (k + 1) * probability / (1 - probability);
        sum += term;
    }
    return sum < 1? sum: 1;
}

double
tails_hypergeometric (uint64_t population, uint64_t marked, uint64_t drawn, uint64_t hits)
{
    assert (marked <= population && drawn <= population);
    assert (hits <= marked && hits <= drawn);
    double n = (double) population, m = (double) marked, d = (double) drawn, k = (double) hits;
    if (k * n <= m * d)
        return 1;
    double term = exp (s_log_choose (m, k) + s_log_choose (n - m, d - k) - s_log_choose (n, d)), sum = term;
    for (; k < m && k < d && term > sum * TAILS_STEP_LEAST; k++) {
        term *= (m - k) / (k + 1) * (d - k) / (n - m - d + k + 1);
        sum += term;
    }
    return sum < 1? sum: 1;
}
